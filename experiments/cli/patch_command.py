"""``oretro patch``: what a retrofit changes in a host, and the patched checkpoint."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from experiments.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    import retrofit
    from experiments.report.columns import Cells, Column
    from retrofit.words import Variant

EXAMPLES = """\b
Examples:
  oretro patch mini --dry-run                 what would change
  oretro patch mini --dry-run --sites         every site of it
  oretro patch mini --variant oa              patch, calibrate and report
  oretro patch v3.ckpt -o v3-full.safetensors write a patched checkpoint
  oretro patch v3.ckpt --table mine.csv --target price   calibrate on a table of yours
  oretro patch v3.ckpt --tau tau.json         tau from 'oretro calibrate --out tau.json'
"""


def patch(
    host: options.Host,
    variant: options.Variant = "full",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the patched .safetensors file.")
    ] = None,
    overwrite: options.Overwrite = False,
    target_presence: options.TargetPresence = None,
    tau: Annotated[
        str | None,
        typer.Option(help="One tau for all sites, or a file that 'oretro calibrate' wrote."),
    ] = None,
    table: options.Tables = None,
    target: options.Targets = None,
    drop: options.Dropped = None,
    decimal: options.Decimal = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    eps_den: options.EpsDen = None,
    eps_mode: options.EpsModes = None,
    sites: Annotated[
        bool, typer.Option("--sites", help="Also list every site and stream.")
    ] = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Patch a host and say what that did: its sites, tau, presence and null radius."""
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
    given: dict[str, Any] = {"target_presence": target_presence, "eps_den": eps_den}
    given["eps_mode"] = eps_mode and eps_mode.value
    settings = {name: value for name, value in given.items() if value is not None}
    if tau is not None:
        settings["tau"] = _tau(tau, description, chosen)
    if output is not None:
        require_writable_checkpoint(output, overwrite=overwrite)
    fields = file_fields(drop=drop, decimal=decimal, delimiter=delimiter, encoding=encoding)
    settings["tables"] = read_tables(table, target, fields)
    if dry_run:
        _show_plan(plan, as_json=as_json, all_sites=sites)
        return
    patched = retrofit.patch(retrofit.load_host(host), chosen, **settings)
    written = patched.save(output, overwrite=overwrite) if output else None
    _show_report(patched, written, as_json=as_json, all_sites=sites)


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


def _show_plan(plan: retrofit.PatchPlan, *, as_json: bool, all_sites: bool) -> None:
    from experiments.cli.output import print_json, print_table, printable
    from experiments.report.columns import Column, show

    if as_json:
        names = ("host", "variant", "counts", "sites", "skipped", "streams")
        problems = [problem.message for problem in plan.problems]
        shown = {name: getattr(plan, name) for name in names}
        print_json({**shown, "problems": problems, "note": plan.note})
    else:
        columns: list[Column[Any]] = [
            Column("name", "site"),
            Column("kind", "kind"),
            Column("stock_class", "class"),
            Column("twin_class", "becomes"),
        ]
        title = f"{plan.variant} on {plan.host}: {len(plan.sites)} sites"
        kinds = [(kind, str(count)) for kind, count in plan.counts.items() if count]
        typer.echo(printable(title))  # a table's own title is wrapped to the table's width
        print_table("", ("kind", "sites"), kinds)
        if all_sites:
            print_table("", *show(columns, plan.sites))
        if plan.note:
            typer.echo(f"{plan.host}: {plan.note}")
    plan.require_no_problem()


def _show_report(
    patched: retrofit.Patched, written: Path | None, *, as_json: bool, all_sites: bool
) -> None:
    from experiments.cli.output import (
        built_in_notice,
        print_json,
        print_table,
        printable,
        say,
        say_written,
    )
    from experiments.report.columns import Column, show

    report = patched.report
    config = report.config
    if as_json:
        print_json({**report.to_dict(), "written": str(written) if written else None})
    else:
        sites: list[Column[Any]] = [
            Column("name", "site"),
            Column("kind", "kind"),
            Column("class_after", "becomes"),
            Column("calls", "calls"),
            Column("eps_share", "largest eps share", "{:.3g}".format),
        ]
        streams: list[Column[Any]] = [
            Column("name", "stream"),
            Column("tau", "tau", "{:.3g}".format),
            Column("presence_min", "min presence", "{:.6f}".format),
            Column("presence_q01", "1 % presence", "{:.6f}".format),
            Column("presence_median", "median presence", "{:.6f}".format),
            Column("null_radius", "null radius", "{:.3g}".format),
        ]
        title = f"{patched.variant} on {patched.name}: {len(report.sites)} sites"
        typer.echo(printable(f"{title}, {len(report.streams)} streams"))
        print_table("", *_by_kind(report))
        print_table("", *_spreads(report, streams[1:]))
        if all_sites:
            print_table("", *show(sites, report.sites))
            print_table("", *show(streams, report.streams))
        measured_on = f"measured on {', '.join(map(str, report.tables))}"
        typer.echo(fill(measured_on, 80, break_long_words=False, break_on_hyphens=False))
        typer.echo(f"tau {_origin(report)}; eps_den {config.eps_den:g}, {config.eps_mode}")
    if notice := built_in_notice(patched.sha256):
        say(notice)
    for warning in report.warnings:
        say(f"warning: {warning}")
    say_written([written] if written else [])


def _by_kind(report: retrofit.PatchReport) -> Cells:
    """How many sites of each kind there are, how often they ran, and what eps_den took there."""
    from experiments.report.columns import Cells, shown

    rows: list[tuple[str, ...]] = []
    for kind, count in report.counts.items():
        sites = [site for site in report.sites if site.kind == kind]
        calls = [site.calls for site in sites if site.calls is not None]
        shares = [site.eps_share for site in sites if site.eps_share is not None]
        share = shown(max(shares, default=None), "{:.3g}".format)
        if count:
            rows.append((kind, str(count), shown(sum(calls) if calls else None, str), share))
    return Cells(("kind", "sites", "calls", "largest eps share"), rows)


def _spreads(report: retrofit.PatchReport, figures: Sequence[Column[Any]]) -> Cells:
    """Smallest, median and largest of each figure over the streams; a dash where none has it."""
    from statistics import median

    from experiments.report.columns import Cells, shown

    rows: list[tuple[str, ...]] = []
    for figure in figures:
        found = [value for s in report.streams if (value := figure.of(s)) is not None]
        spread = (min(found), median(found), max(found)) if found else (None,) * 3
        rows.append((figure.header, *(shown(value, figure.form) for value in spread)))
    return Cells(("over the streams", "smallest", "median", "largest"), rows)


def _origin(report: retrofit.PatchReport) -> str:
    if report.config.target_presence is None:
        return "as given"
    tables = ", ".join(str(table) for table in report.tau_tables)
    return f"calibrated for presence {report.config.target_presence:g} on {tables}"
