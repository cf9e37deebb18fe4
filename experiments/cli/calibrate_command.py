"""``oretro calibrate``: how large a host's carriers are, and the tau that follows."""

from __future__ import annotations

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
    from collections.abc import Sequence

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
    host: Annotated[str, typer.Argument(help="mini, an official name, or a path.")],
    variant: Annotated[str, typer.Option(help="oa, full or closed.")] = "full",
    target_presence: Annotated[
        list[float] | None,
        typer.Option(help="Presence of the carriers' first percentile; may be repeated. [0.999]"),
    ] = None,
    table: Tables = None,
    target: Targets = None,
    drop: Dropped = None,
    decimal: Decimal = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the .json file that patch reads.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing output file.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List streams and tables; load no weights.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
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
    from retrofit.patching.calibrate import record, synthetic_tables

    records = [record(table) for table in (synthetic_tables() if tables is None else tables)]
    if as_json:
        shown = {"host": plan.host, "variant": plan.variant, "target_presences": presences}
        print_json({**shown, "streams": plan.streams, "tables": records, "note": plan.note})
        return
    title = f"{plan.variant} on {plan.host}: {len(plan.streams)} streams"
    print_table(title, ("stream",), [(name,) for name in plan.streams])
    header = ("table", "rows", "columns", "sha256")
    rows = [(item.name, str(item.rows), str(item.columns), item.sha256[:12]) for item in records]
    print_table(f"{len(records)} calibration tables", header, rows)
    if plan.note:
        typer.echo(f"{plan.host}: {plan.note}")


def _show(
    found: Sequence[retrofit.Calibration], written: Path | None, *, built_in: bool, as_json: bool
) -> None:
    """Everything measured, target presences side by side: a small tau is no success by itself."""
    from experiments.cli.output import print_json, print_table

    first = found[0]
    if as_json:
        print_json(_plain(found, written, built_in=built_in))
        return
    by_stream = list(zip(*(item.streams for item in found), strict=True))
    marks = [f" @{item.target_presence:g}" for item in found]
    tables = ", ".join(str(table) for table in first.tables)
    print_table(
        f"{first.variant} on {first.host_name}: carriers of {len(by_stream)} streams, on {tables}",
        (
            *("stream", "tokens", "|h|^2 1 %", "|h|^2 median"),
            *(name + mark for mark in marks for name in ("tau", "null radius")),
        ),
        [
            (
                *(row[0].name, str(row[0].tokens)),
                *(f"{row[0].squared_norm_q01:.4g}", f"{row[0].squared_norm_median:.4g}"),
                *(cell for item in row for cell in (f"{item.tau:.4g}", f"{item.null_radius:.3g}")),
            )
            for row in by_stream
        ],
    )
    print_table(
        "presence of the smallest, the 1st percentile and the median token",
        ("stream", *(name + mark for mark in marks for name in ("smallest", "1 %", "median"))),
        [
            (
                row[0].name,
                *(
                    f"{presence:.6f}"
                    for item in row
                    for presence in (item.presence_min, item.presence_q01, item.presence_median)
                ),
            )
            for row in by_stream
        ],
    )
    print_table(
        "null radius: carrier norm of presence 1/2, relative to its stream's median norm",
        ("target presence", "smallest", "median", "largest"),
        [
            (f"{item.target_presence:g}", *(f"{radius:.3g}" for radius in _spread(item)))
            for item in found
        ],
    )


def _spread(item: retrofit.Calibration) -> tuple[float, float, float]:
    radius = item.null_radius
    return radius.min, radius.median, radius.max


def _plain(
    found: Sequence[retrofit.Calibration], written: Path | None, *, built_in: bool
) -> dict[str, Any]:
    first = found[0]
    return {
        "host": {"name": first.host_name, "sha256": first.host_sha256, "built_in": built_in},
        "variant": first.variant,
        "tables": first.tables,
        "versions": first.versions,
        "targets": [
            {
                "target_presence": item.target_presence,
                "null_radius": item.null_radius,
                "streams": item.streams,
            }
            for item in found
        ],
        "written": str(written) if written else None,
    }


def _named(tables: Sequence[retrofit.CalibrationTable] | None) -> str:
    if tables is None:
        return "the built-in synthetic tables"
    return ", ".join(table.name for table in tables)
