"""``oretro patch``: what a retrofit changes in a host, and the patched checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    import retrofit
    from retrofit.config import Variant

EXAMPLES = """\b
Examples:
  oretro patch mini --dry-run                 every site that would change
  oretro patch mini --variant oa              patch, calibrate and report
  oretro patch v3.ckpt -o v3-full.safetensors write a patched checkpoint
"""


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
        float | None, typer.Option(help="Presence of the smallest carriers. [0.999]")
    ] = None,
    tau: Annotated[float | None, typer.Option(help="One tau for all sites.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the sites; load no weights.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")
    ] = False,
) -> None:
    """Patch a host and report every site: its classes, tau, presence and null radius."""
    import retrofit

    if dry_run:
        _show_plan(retrofit.plan(host, _variant(variant)), as_json=as_json)
        return
    if tau is not None and target_presence is not None:
        raise typer.BadParameter("give --tau or --target-presence, not both")
    settings: dict[str, Any] = {"tau": tau}
    if target_presence is not None:
        settings["target_presence"] = target_presence
    patched = retrofit.patch(retrofit.load_host(host), _variant(variant), **settings)
    written = patched.save(output, overwrite=overwrite) if output else None
    _show_report(patched, written, as_json=as_json)


def _variant(name: str) -> Variant:
    """The name as it is: the library refuses an unknown one with the list of those it has."""
    return cast("Variant", name)


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
            f"{len(report.streams)} streams, measured on {report.calibration}",
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
    if notice := built_in_notice(patched.sha256):
        say(notice)
    for warning in report.warnings:
        say(f"warning: {warning}")
    if written:
        say(f"wrote {written}")


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _whole(value: int | None) -> str:
    return "-" if value is None else str(value)
