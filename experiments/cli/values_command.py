"""``oretro values``: what each row, or group of rows, is worth."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from experiments.cli import options
from experiments.cli import removal_options as removal

EXAMPLES = """\b
Examples:
  oretro values diabetes                                leave-one-out value of every row
  oretro values mine.csv --target price --groups customer_id --kind shapley
"""


def values(
    data: removal.Data,
    target: options.Target = None,
    groups: Annotated[
        str | None, typer.Option(help="Column whose rows of one value go together.")
    ] = None,
    kind: Annotated[str, typer.Option(help="loo, shapley or banzhaf.")] = "loo",
    metric: Annotated[
        str, typer.Option(help="Name of a scikit-learn scorer.")
    ] = "neg_root_mean_squared_error",
    validation: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Share of rows that the score is taken on.")
    ] = 0.3,
    host: removal.HostOption = "mini",
    scope: removal.Scope = "model",
    n_estimators: removal.Members = 8,
    budget: removal.Budget = None,
    max_rows: removal.MaxRows = None,
    seed: removal.Seed = 0,
    drop: options.Dropped = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    cache: removal.Kept = None,
    out: options.OutFolder = None,
    dry_run: options.DryRun = False,
) -> None:
    """Tell what each row, or group of rows, is worth for predicting the others, without refits."""
    from experiments.cli.output import command_line, say_written
    from experiments.data.splits import draw_split
    from experiments.removal.values import row_values
    from experiments.removal.write import frame_of, page, ranked
    from experiments.studies.writer import write_study

    fields = removal.fields_of(target, drop, delimiter, decimal, encoding)
    subject = removal.subject_of(data, fields, max_rows, seed)
    split = draw_split(data, seed, len(subject.kept), validation)
    subject = subject.without([int(row) for row in subject.kept[split.test]])
    table, notice = removal.table_of(
        subject, host, scope, n_estimators, seed, cache, out,
        row_groups=None if groups is None else subject.groups(groups),
    )  # fmt: skip
    held = subject.table.X.iloc[subject.left_out].reset_index(drop=True)
    truth = subject.table.y[subject.left_out]
    count = table.rows.groups if kind == "loo" else budget or 20 * table.rows.groups
    if dry_run:
        removal.say_estimate(table, count, len(held))
        return
    found = row_values(
        table,
        held,
        truth,
        kind=cast("Any", kind),
        metric=metric,
        budget=budget,
        seed=seed,
    )
    names = (
        [str(row) for row in subject.kept]
        if groups is None
        else [str(label) for label in sorted(set(subject.groups(groups)))]
    )
    unit = "row" if groups is None else groups
    header = (
        f"Values of {len(names)} groups of rows of {data} ({kind}), {metric} {found.score:.4g} on "
        f"{len(held)} other rows"
    )
    typer.echo(f"{header}\n\n{ranked(names, found.values, unit, 'value')}")
    if out is None:
        return
    tables = {"values": frame_of({unit: names, "value": found.values})}
    title = f"What the rows of {data} are worth"
    parts = [f"{header}.", ranked(names, found.values, unit, "value")]
    text = page(title, command_line(), scope, notice, parts)
    record = removal.record_of(
        scope=scope, kind=cast("Any", kind), metric=metric, coalitions=found.coalitions
    )
    say_written(write_study(out, "values", tables, text, record))
