"""``oretro patch``: what a retrofit changes in a host, and the patched checkpoint."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from experiments.cli.calibration_options import (  # noqa: TC001  (typer reads them when it runs)
    Tables,
    Targets,
)
from experiments.cli.data_options import (  # noqa: TC001
    Decimal,
    Delimiter,
    Dropped,
    Encoding,
)

if TYPE_CHECKING:
    import retrofit
    from retrofit.words import Variant

EXAMPLES = """\b
Examples:
  oretro patch mini --dry-run                 every site that would change
  oretro patch mini --variant oa              patch, calibrate and report
  oretro patch v3.ckpt -o v3-full.safetensors write a patched checkpoint
  oretro patch v3.ckpt --table mine.csv --target price   calibrate on a table of yours
  oretro patch v3.ckpt --tau tau.json         tau from 'oretro calibrate --out tau.json'
"""


class EpsMode(str, Enum):
    """What eps_den is relative to."""

    absolute = "absolute"
    relative = "relative"


def patch(
    host: Annotated[str, typer.Argument(help="mini, an official name, or a path.")],
    variant: Annotated[str, typer.Option(help="oa, full or closed.")] = "full",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the patched .safetensors file.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing output file.")
    ] = False,
    target_presence: Annotated[
        float | None, typer.Option(help="Presence of the carriers' first percentile. [0.999]")
    ] = None,
    tau: Annotated[
        str | None,
        typer.Option(help="One tau for all sites, or a file that 'oretro calibrate' wrote."),
    ] = None,
    table: Tables = None,
    target: Targets = None,
    drop: Dropped = None,
    decimal: Decimal = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    eps_den: Annotated[
        float | None, typer.Option(min=0, help="Mass of attention's value-less source. [1e-8]")
    ] = None,
    eps_mode: Annotated[
        EpsMode, typer.Option(help="Scale of --eps-den: raw, or the largest present term's.")
    ] = EpsMode.absolute,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the sites; load no weights.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")
    ] = False,
) -> None:
    """Patch a host and report every site: its classes, tau, presence and null radius."""
    import retrofit
    from experiments.cli.calibration_options import read_tables
    from experiments.cli.data_options import file_fields
    from retrofit.files.checkpoint import require_writable_checkpoint
    from retrofit.patching.calibrate import require_target

    if tau is not None and target_presence is not None:
        raise typer.BadParameter("give --tau or --target-presence, not both")
    if eps_den is not None and not math.isfinite(eps_den):
        raise typer.BadParameter(f"--eps-den {eps_den}: must be finite")
    if target_presence is not None:
        require_target(target_presence)
    chosen = cast("Variant", variant)
    description = retrofit.describe_host(host)
    plan = retrofit.plan(description, chosen)
    settings: dict[str, Any] = {"eps_mode": eps_mode.value, "target_presence": target_presence}
    if eps_den is not None:
        settings["eps_den"] = eps_den
    if tau is not None:
        settings["tau"] = _tau(tau, description, chosen)
    if output is not None:
        require_writable_checkpoint(output, overwrite=overwrite)
    fields = file_fields(drop=drop, decimal=decimal, delimiter=delimiter, encoding=encoding)
    settings["tables"] = read_tables(table, target, fields)
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return
    patched = retrofit.patch(retrofit.load_host(host), chosen, **settings)
    written = patched.save(output, overwrite=overwrite) if output else None
    _show_report(patched, written, as_json=as_json)


def _tau(
    text: str, host: retrofit.HostDescription, variant: Variant
) -> float | retrofit.Calibration:
    """The number, or the calibration in the file, which is checked before a weight is read."""
    import retrofit

    try:
        value = float(text)
    except ValueError:
        pass
    else:
        if not (math.isfinite(value) and value > 0):
            raise typer.BadParameter(f"--tau {text}: must be positive and finite")
        return value
    calibration = retrofit.Calibration.load(text)
    # Of a host that is not here yet nothing is known, and a patched one has its own refusal.
    if host.path is not None and not host.patched:
        calibration.require_fits(host, variant, where=text)
    return calibration


def _show_plan(plan: retrofit.PatchPlan, *, as_json: bool) -> None:
    from experiments.cli.output import print_json, print_table

    if as_json:
        print_json(
            {
                "host": plan.host,
                "variant": plan.variant,
                "counts": plan.counts,
                "sites": plan.sites,
                "skipped": plan.skipped,
                "streams": plan.streams,
                "problems": [problem.message for problem in plan.problems],
                "note": plan.note,
            }
        )
    else:
        rows = [(site.name, site.kind, site.stock_class, site.twin_class) for site in plan.sites]
        counts = ", ".join(f"{count} {kind}" for kind, count in plan.counts.items())
        title = f"{plan.variant} on {plan.host}: {len(plan.sites)} sites ({counts})"
        print_table(title, ("site", "kind", "class", "becomes"), rows)
        if plan.note:
            typer.echo(f"{plan.host}: {plan.note}")
    plan.require_no_problem()


def _show_report(patched: retrofit.Patched, written: Path | None, *, as_json: bool) -> None:
    from experiments.cli.output import built_in_notice, print_json, print_table, say

    report = patched.report
    config = report.config
    if as_json:
        print_json({**report.to_dict(), "written": str(written) if written else None})
    else:
        counts = ", ".join(f"{count} {kind}" for kind, count in report.counts.items())
        print_table(
            f"{patched.variant} on {patched.name}: {len(report.sites)} sites ({counts})",
            ("site", "kind", "becomes", "calls", "largest eps share"),
            [
                (site.name, site.kind, site.class_after, _whole(site.calls), _short(site.eps_share))
                for site in report.sites
            ],
        )
        print_table(
            f"{len(report.streams)} streams, measured on {', '.join(map(str, report.tables))}",
            ("stream", "tau", "min presence", "1 % presence", "median presence", "null radius"),
            [
                (
                    stream.name,
                    _short(stream.tau),
                    f"{stream.presence_min:.6f}",
                    f"{stream.presence_q01:.6f}",
                    f"{stream.presence_median:.6f}",
                    _short(stream.null_radius),
                )
                for stream in report.streams
            ],
        )
        typer.echo(f"tau {_origin(report)}; eps_den {config.eps_den:g}, {config.eps_mode}")
    if notice := built_in_notice(patched.sha256):
        say(notice)
    for warning in report.warnings:
        say(f"warning: {warning}")
    if written:
        say(f"wrote {written}")


def _origin(report: retrofit.PatchReport) -> str:
    if report.config.target_presence is None:
        return "as given"
    tables = ", ".join(str(table) for table in report.tau_tables)
    return f"calibrated for presence {report.config.target_presence:g} on {tables}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _whole(value: int | None) -> str:
    return "-" if value is None else str(value)
