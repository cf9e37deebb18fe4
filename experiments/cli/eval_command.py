"""``oretro eval``: run a comparison of stock and patched hosts over data sets and seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli import options

if TYPE_CHECKING:
    from experiments.sweep.config import SweepConfig
    from experiments.sweep.engines.engine import Engine

EXAMPLES = """\b
Examples:
  oretro eval                                 18 packaged cases, built-in host
  oretro eval --limit 1 --dry-run             what would run; reads no weights
  oretro eval --host my-v3.ckpt --seeds 1,2   another host, other seeds
  oretro eval packaged18_p99 --out runs/p99   another configuration and folder
  oretro eval --baselines                     also scikit-learn's models
  oretro eval --jobs 4 --threads 2            four cases at a time
  oretro eval --data mine.csv --target price --out runs/mine
  oretro eval openml18 --cache DIR --offline  OpenML tasks from a fetched cache
"""


def evaluate(
    config: options.Config = "packaged18",
    host: Annotated[
        str | None, typer.Option(help="mini, an official name, or a path to a checkpoint.")
    ] = None,
    variants: Annotated[str | None, typer.Option(help="Such as stock,oa,full,closed.")] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Names; several by comma or by repeating the option.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A CSV or parquet file in place of named data sets.")
    ] = None,
    target: options.Target = None,
    drop: options.Dropped = None,
    words: options.Words = None,
    text: options.Text = None,
    dates: options.Dates = None,
    decimal: options.Decimal = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    cache: options.Cache = None,
    offline: options.Offline = False,
    seeds: Annotated[str | None, typer.Option(help="Such as 1729,2718.")] = None,
    limit: Annotated[int | None, typer.Option(help="Run the first so many cases only.")] = None,
    target_presence: options.TargetPresence = None,
    tau: Annotated[float | None, typer.Option(help="One tau for all sites.")] = None,
    eps_den: options.EpsDen = None,
    eps_mode: options.EpsModes = None,
    splits: Annotated[
        str | None, typer.Option(help="ours, or official: those of an OpenML task.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="So many folds per seed in place of one split.")
    ] = None,
    group_column: Annotated[
        str | None, typer.Option(help="Column whose groups of rows are never split.")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column in time: train on earlier rows, test on later.")
    ] = None,
    keep_split_column: Annotated[
        bool | None, typer.Option("--keep-split-column", help="Make that column a feature too.")
    ] = None,
    test_fraction: Annotated[
        float | None, typer.Option(help="Share of test rows in a split of ours. [0.3]")
    ] = None,
    max_train_rows: Annotated[
        int | None, typer.Option(help="Train on so many rows at most. [all]")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="A scorer of scikit-learn by name; may be repeated.")
    ] = None,
    save_predictions: Annotated[
        bool | None, typer.Option("--save-predictions", help="Keep every model's predictions.")
    ] = None,
    n_estimators: Annotated[
        int | None, typer.Option(help="Members of tabpfn's ensemble. [8]")
    ] = None,
    device: options.SweepDevice = None,
    threads: Annotated[int | None, typer.Option(help="Threads of each case.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Cases at a time.")] = 1,
    dask: Annotated[
        str | None, typer.Option(help="'local', or the address of a dask scheduler.")
    ] = None,
    case_timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a case is given up.")
    ] = None,
    timing_repeats: Annotated[
        int | None, typer.Option(help="Timed predictions per case and variant.")
    ] = None,
    noise_floor: Annotated[
        bool | None,
        typer.Option("--noise-floor/--no-noise-floor", help="Also score stock against itself."),
    ] = None,
    baselines: Annotated[
        bool | None,
        typer.Option("--baselines/--no-baselines", help="Also score scikit-learn's models."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder. [runs/SUITE-HOST]")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget earlier results in the folder; start anew.")
    ] = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare stock and patched hosts; run again after a stop to go on where it was."""
    if tau is not None and target_presence is not None:
        raise typer.BadParameter("give --tau or --target-presence, not both")
    from experiments.cli.data_options import file_fields, file_options, openml_options
    from experiments.cli.output import say_if_shadowed
    from experiments.sweep.config import builtin_configs, load_config
    from experiments.sweep.engines.engine import Engine

    fields = file_fields(
        target=target,
        drop=drop,
        words=words,
        text=text,
        dates=dates,
        decimal=decimal,
        delimiter=delimiter,
        encoding=encoding,
    )
    given: dict[str, Any] = {
        "host": host,
        "variants": _split(variants),
        "datasets": _datasets(datasets),
        "seeds": _split(seeds),
        "limit": limit,
        "target_presence": target_presence,
        "tau": tau,
        "eps_den": eps_den,
        "eps_mode": eps_mode and eps_mode.value,
        "splits": splits,
        "folds": folds,
        "group_column": group_column,
        "time_column": time_column,
        "keep_split_column": keep_split_column,
        "test_fraction": test_fraction,
        "max_train_rows": max_train_rows,
        "metric": metric or None,
        "save_predictions": save_predictions,
        "n_estimators": n_estimators,
        "device": device,
        "threads": threads,
        "timing_repeats": timing_repeats,
        "noise_floor": noise_floor,
        "baselines": baselines,
        "openml": openml_options(cache, offline=offline),
        **file_options(data, fields),
    }
    if data is not None and datasets is None:
        given["datasets"] = []
    settings = load_config(config, given)
    if config in builtin_configs():
        say_if_shadowed(config, "configuration")
    if settings.host in ("mini", "v3"):
        say_if_shadowed(settings.host, "host")
    engine = Engine(jobs, dask, case_timeout)
    if dry_run:
        from experiments.cli.dry_run import show_plan

        show_plan(settings, as_json=as_json)
        return
    folder = out or default_folder(settings)
    _run(settings, folder, engine, fresh=fresh, as_json=as_json, quiet=quiet)


def default_folder(config: SweepConfig) -> Path:
    """``runs/SUITE-HOST``, a path that depends on what is compared and not on the time."""
    import re

    # The number of a version is no suffix: mini-v3.5 is another host than mini-v3.
    host = re.sub(r"\.(ckpt|safetensors)$", "", Path(config.host).name)
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "_", f"{config.suite}-{host}")
    return Path("runs") / readable


def _run(
    config: SweepConfig, folder: Path, engine: Engine, *, fresh: bool, as_json: bool, quiet: bool
) -> None:
    from experiments.cli.output import (
        command_line,
        progress_bar,
        say,
        say_notes,
        show_changes,
        show_summary,
    )
    from experiments.errors import EngineError, InterruptedWriteError
    from experiments.io.text import visible
    from experiments.report.summary import summarise_folder
    from experiments.sweep.engines.engine import crowding
    from experiments.sweep.run import run_sweep

    if remark := crowding(engine, config.threads):
        say(f"note: {remark}")

    def show_variants() -> None:
        if not as_json:
            show_changes(summarise_folder(folder, margin_pct=config.equivalence_margin_pct))
            say("the variants are done; what follows is their noise floor, stock against stock")

    try:
        with progress_bar(enabled=not quiet) as report:
            outcome = run_sweep(
                config,
                folder,
                fresh=fresh,
                command=command_line(),
                engine=engine,
                report=report,
                before_noise=show_variants,
            )
    except (InterruptedWriteError, EngineError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say(f"stopped; finished results are in {folder}: run the same command again to go on")
        raise
    summary = summarise_folder(folder, margin_pct=config.equivalence_margin_pct)
    show_summary(summary, outcome, as_json=as_json)
    say_notes(summary.data_notes, folder / "run.json")
    say_notes(summary.notes, folder / "cases.csv")
    if outcome.failed:
        say(f"{outcome.failed} row(s) failed; run the same command again to try them again")
    for name in outcome.damaged:
        say(f"record {visible(name)} was damaged; its case was computed again")
    for name, reason in outcome.missing:
        say(f"data set {name} is missing: {reason}")
    if outcome.failed or outcome.missing:
        raise typer.Exit(1)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _datasets(values: list[str] | None) -> list[str] | None:
    """Split at commas, except where the whole value is the name of a data set."""
    if not values:
        return None
    from experiments.data import resolve
    from experiments.errors import DataError

    names: list[str] = []
    for value in values:
        try:
            resolve(value)
        except DataError:
            names += [part.strip() for part in value.split(",") if part.strip()]
        else:
            names.append(value)
    return names
