"""What a sweep or a patch would do, shown without reading a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import typer

from experiments.cli.output import print_json, print_table, printable
from experiments.io.text import visible
from experiments.sweep import variant_name

if TYPE_CHECKING:
    from experiments.sweep.cases import PlannedCase
    from experiments.sweep.config import SweepConfig
    from retrofit.words import Variant


def show_plan(config: SweepConfig, *, as_json: bool) -> None:
    """Print the cases of a sweep, and the sites that each variant would change.

    Raises:
        ConfigError: there is no such device here.
        RetrofitError: the host could not be patched.
    """
    import retrofit
    from experiments.machine.device import resolve_device
    from experiments.machine.threads import refuse_too_many
    from experiments.sweep.cases import plan_cases
    from experiments.sweep.run import row_names

    refuse_too_many(config.threads)
    config = config.model_copy(update={"device": resolve_device(config.device)})
    cases = plan_cases(config)
    names = row_names(config)
    tables = {item.table.name: item.table for item in cases}
    notes = [f"{name}: {note}" for name, table in tables.items() for note in table.notes]
    host = retrofit.describe_host(config.host)
    bases = dict.fromkeys(variant_name.parse(name).base for name in config.variants)
    plans = [
        retrofit.plan(host, cast("Variant", base)) for base in bases if base != variant_name.STOCK
    ]
    if as_json:
        print_json(
            {
                "config": config.model_dump(mode="json"),
                "cases": [_case(item) for item in cases],
                "data_notes": notes,
                "rows_per_case": names,
                "sites": {
                    plan.variant: {
                        "counts": plan.counts,
                        "names": [site.name for site in plan.sites],
                        "problems": [problem.message for problem in plan.problems],
                    }
                    for plan in plans
                },
                "host": {"name": host.name, "sha256": host.sha256, "note": host.note},
            }
        )
    else:
        header = ("data set", "seed", "train", "test", "columns", "remark")
        rows = [[str(value) for value in _case(item).values()] for item in cases]
        if config.folds:
            typer.echo(f"seed: that of {config.folds} folds, times {config.folds}, plus the fold")
        print_table(f"{len(cases)} cases, {len(names)} rows each: {', '.join(names)}", header, rows)
        for note in notes:
            typer.echo(printable(visible(note)))
        for plan in plans:
            counts = ", ".join(f"{count} {kind}" for kind, count in plan.counts.items())
            typer.echo(f"{plan.variant}: {len(plan.sites)} sites of {host.name} ({counts})")
        if host.note:
            typer.echo(f"{host.name}: {host.note}")
    for plan in plans:
        plan.require_no_problem()


def _case(planned: PlannedCase) -> dict[str, Any]:
    return {
        "dataset": planned.case.dataset,
        "seed": planned.case.seed,
        "n_train": len(planned.split.train),
        "n_test": len(planned.split.test),
        "n_features": planned.table.X.shape[1],
        "remark": planned.skip or planned.fault or planned.remark,
    }
