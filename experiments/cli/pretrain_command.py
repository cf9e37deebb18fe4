"""``oretro pretrain``: train a mini host from synthetic tasks, and export it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli import options

if TYPE_CHECKING:
    from experiments.pretrain.checkpoint import Checkpoint

EXAMPLES = """\b
Examples:
  oretro pretrain configs/mini_host.yaml --dry-run
  oretro pretrain configs/mini_host.yaml --out runs/host
  oretro pretrain configs/mini_host.yaml --out runs/host --export mini-v3.safetensors
"""


def pretrain(
    config: Annotated[Path, typer.Argument(help="YAML file of the run.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of checkpoint, log and learning curve.")
    ] = Path("runs/pretrain"),
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the finished host here, as .safetensors named with its generation: v3."
        ),
    ] = None,
    card: Annotated[
        Path | None, typer.Option(help="Where its model card goes. [default: beside --export]")
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="Export weights in float16.")] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Do not train; export what the checkpoint holds.")
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option(help="A recorded pace.csv: repeat that wall-clock run step by step."),
    ] = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a mini host of any TabPFN architecture; run again to resume after a stop or a kill.

    The host is trained on synthetic tasks. It is not Prior Labs' model.
    """
    from experiments.cli.output import say
    from experiments.errors import ConfigError
    from experiments.machine.threads import refuse_too_many
    from experiments.pretrain.checkpoint import FILE_NAME, load_checkpoint
    from experiments.pretrain.config import ReplayBudget, load_config
    from experiments.pretrain.trainer import ignore_status, train

    chosen = load_config(config)
    refuse_too_many(chosen.threads)
    if replay is not None:
        budget = ReplayBudget(kind="replay", pace=replay.resolve())
        chosen = chosen.model_copy(update={"budget": budget})
    if export is None and (unfinished or half or card is not None):
        raise ConfigError("--unfinished, --half and --card need --export FILE.")
    if dry_run:
        from experiments.pretrain.summary import describe

        _print(describe(chosen, out), as_json=as_json)
        return
    if not unfinished:
        if quiet:
            done = train(chosen, out, show=ignore_status)
        else:
            from experiments.pretrain.progress import live_progress

            with live_progress(say) as show:
                done = train(chosen, out, show=show)
        if not done:
            say(f"stopped; run the same command to go on from {out / FILE_NAME}")
            raise typer.Exit(130)
    saved = load_checkpoint(out / FILE_NAME)
    if export is not None:
        saved.check_config(chosen, out / FILE_NAME)
        _export(saved, export, card, half=half, unfinished=unfinished)
    outcome: dict[str, object] = {
        "run": str(out),
        "steps": saved.step,
        "tasks": saved.tasks,
        "seconds": round(saved.elapsed_s, 1),
        "finished": saved.finished,
        **saved.figures,
        "exported": None if export is None else str(export),
    }
    _print(outcome, as_json=as_json)


def _export(
    saved: Checkpoint, target: Path, card: Path | None, *, half: bool, unfinished: bool
) -> None:
    from experiments.pretrain.export import export_host
    from experiments.pretrain.model_card import model_card
    from retrofit.files.atomic import write_atomic

    export_host(saved, target, half=half, unfinished=unfinished)
    beside = target.with_suffix(".md") if card is None else card
    beside.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(beside, model_card(saved, target))


def _print(outcome: dict[str, object], *, as_json: bool) -> None:
    from experiments.cli.output import print_json, print_table

    if as_json:
        print_json(outcome)
        return
    rows = [
        [name, f"{value:.4f}" if isinstance(value, float) else str(value)]
        for name, value in outcome.items()
        if value is not None
    ]
    print_table("", ["", ""], rows)
