"""``oretro calibrate``: how large a host's carriers are, and the tau that follows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from experiments.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import retrofit
    from retrofit.words import Variant

EXAMPLES = """\b
Examples:
  oretro calibrate mini                                   tau of every stream
  oretro calibrate mini --target-presence 0.99 --target-presence 0.999
  oretro calibrate my-v3.ckpt --table mine.csv --target price --out tau.json
  oretro patch my-v3.ckpt --tau tau.json                  use it
"""


def calibrate(
    host: options.Host,
    variant: options.Variant = "full",
    target_presence: options.TargetPresences = None,
    table: options.Tables = None,
    target: options.Targets = None,
    drop: options.Dropped = None,
    decimal: options.Decimal = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the .json file that patch reads.")
    ] = None,
    overwrite: options.Overwrite = False,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the carriers of every stream on calibration tables, and set tau from them."""
    import retrofit
    from experiments.cli.calibration_options import read_tables
    from experiments.cli.data_options import file_fields
    from experiments.cli.output import built_in_notice, say
    from retrofit.patching.calibrate import require_target
    from retrofit.patching.calibration import require_writable
    from retrofit.words import DEFAULT_TARGET_PRESENCE

    presences = list(dict.fromkeys(target_presence or [DEFAULT_TARGET_PRESENCE]))
    for presence in presences:
        require_target(presence)
    if out is not None:
        if len(presences) > 1:
            raise typer.BadParameter("--out holds one calibration: give one --target-presence")
        require_writable(out, overwrite=overwrite)
    chosen = cast("Variant", variant)
    plan = retrofit.plan(host, chosen)
    plan.require_no_problem()
    fields = file_fields(drop=drop, decimal=decimal, delimiter=delimiter, encoding=encoding)
    tables = read_tables(table, target, fields)
    if dry_run:
        _show_plan(plan, presences, tables, as_json=as_json)
        return
    loaded = retrofit.load_host(host)
    if not quiet:
        say(f"measuring {len(plan.streams)} streams of {host} on {_named(tables)}")
    carriers = retrofit.measure_carriers(loaded, chosen, tables)
    found = [carriers.calibration(presence) for presence in presences]
    written = found[0].save(out, overwrite=overwrite) if out is not None else None
    notice = built_in_notice(loaded.sha256)
    _show(found, written, built_in=bool(notice), as_json=as_json)
    if notice:
        say(notice)
    if written:
        say(f"wrote {written}")


def _show_plan(
    plan: retrofit.PatchPlan,
    presences: Sequence[float],
    tables: Sequence[retrofit.CalibrationTable] | None,
    *,
    as_json: bool,
) -> None:
    from experiments.cli.output import print_json, print_table
    from experiments.report.columns import Column, show
    from retrofit.patching.calibrate import record, synthetic_tables

    records = [record(table) for table in (synthetic_tables() if tables is None else tables)]
    if as_json:
        shown = {"host": plan.host, "variant": plan.variant, "target_presences": presences}
        print_json({**shown, "streams": plan.streams, "tables": records, "note": plan.note})
        return
    title = f"{plan.variant} on {plan.host}: {len(plan.streams)} streams"
    print_table(title, ("stream",), [(name,) for name in plan.streams])
    columns: list[Column[Any]] = [
        Column("name", "table"),
        Column("rows", "rows"),
        Column("columns", "columns"),
        Column("sha256", "sha256", value=lambda item: item.sha256[:12]),
    ]
    print_table(f"{len(records)} calibration tables", *show(columns, records))
    if plan.note:
        typer.echo(f"{plan.host}: {plan.note}")


def _show(
    found: Sequence[retrofit.Calibration], written: Path | None, *, built_in: bool, as_json: bool
) -> None:
    """Everything measured, target presences side by side: a small tau is no success by itself."""
    from experiments.cli.output import print_json, print_table
    from experiments.report.columns import Column, show

    first = found[0]
    if as_json:
        print_json(_plain(found, written, built_in=built_in))
        return

    def per_target(*figures: tuple[str, str, str]) -> list[Column[Any]]:
        """Columns of a figure's name, header and form, for every target presence in turn."""
        return [
            Column(name, f"{header} @{item.target_presence:g}", form.format, _of(at, name))
            for at, item in enumerate(found)
            for name, header, form in figures
        ]

    by_stream = list(zip(*(item.streams for item in found), strict=True))
    stream: Column[Any] = Column("name", "stream", value=_of(0, "name"))
    measured: list[Column[Any]] = [
        Column("tokens", "tokens", value=_of(0, "tokens")),
        Column("q01", "|h|^2 1 %", "{:.4g}".format, _of(0, "squared_norm_q01")),
        Column("median", "|h|^2 median", "{:.4g}".format, _of(0, "squared_norm_median")),
    ]
    radii = per_target(("tau", "tau", "{:.4g}"), ("null_radius", "null radius", "{:.3g}"))
    tables = ", ".join(str(table) for table in first.tables)
    print_table(
        f"{first.variant} on {first.host_name}: carriers of {len(by_stream)} streams, on {tables}",
        *show([stream, *measured, *radii], by_stream),
    )
    presences = per_target(
        ("presence_min", "smallest", "{:.6f}"),
        ("presence_q01", "1 %", "{:.6f}"),
        ("presence_median", "median", "{:.6f}"),
    )
    print_table(
        "presence of the smallest, the 1st percentile and the median token",
        *show([stream, *presences], by_stream),
    )
    spread: list[Column[Any]] = [
        Column("target_presence", "target presence", "{:g}".format),
        Column("min", "smallest", "{:.3g}".format, lambda item: item.null_radius.min),
        Column("median", "median", "{:.3g}".format, lambda item: item.null_radius.median),
        Column("max", "largest", "{:.3g}".format, lambda item: item.null_radius.max),
    ]
    print_table(
        "null radius: carrier norm of presence 1/2, relative to its stream's median norm",
        *show(spread, found),
    )


def _of(at: int, name: str) -> Callable[[Sequence[Any]], Any]:
    """A figure of one stream at one of the target presences."""
    return lambda row: getattr(row[at], name)


def _plain(
    found: Sequence[retrofit.Calibration], written: Path | None, *, built_in: bool
) -> dict[str, Any]:
    first, names = found[0], ("target_presence", "null_radius", "streams")
    return {
        "host": {"name": first.host_name, "sha256": first.host_sha256, "built_in": built_in},
        "variant": first.variant,
        "tables": first.tables,
        "versions": first.versions,
        "targets": [{name: getattr(item, name) for name in names} for item in found],
        "written": str(written) if written else None,
    }


def _named(tables: Sequence[retrofit.CalibrationTable] | None) -> str:
    if tables is None:
        return "the built-in synthetic tables"
    return ", ".join(table.name for table in tables)
