"""``oretro explain``: what each column adds to single predictions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from experiments.cli import options
from experiments.cli import removal_options as removal

EXAMPLES = """\b
Examples:
  oretro explain diabetes --rows 0,1,2                  a packaged set, three of its rows
  oretro explain mine.csv --target price --rows 5 --out runs/explain
  oretro explain mine.csv --target price --test new.csv --order 2
"""


def explain(
    data: removal.Data,
    target: options.Target = None,
    rows: removal.Rows = None,
    test: removal.NewRows = None,
    host: removal.HostOption = "mini",
    scope: removal.Scope = "model",
    n_estimators: removal.Members = 8,
    budget: removal.Budget = None,
    order: Annotated[int, typer.Option(min=1, help="Columns in an interaction.")] = 1,
    max_rows: removal.MaxRows = None,
    seed: removal.Seed = 0,
    drop: options.Dropped = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    cache: removal.Kept = None,
    out: options.OutFolder = None,
    figures: options.Figures = True,
    dry_run: options.DryRun = False,
) -> None:
    """Tell what each column adds to predictions of single rows: Shapley values, without refits."""
    from experiments.cli.output import command_line, say_written
    from experiments.removal.columns import EXACT_COALITIONS
    from experiments.removal.columns import explain as attribute
    from experiments.removal.write import bars, frame_of, page, ranked
    from experiments.studies.writer import write_study

    fields = removal.fields_of(target, drop, delimiter, decimal, encoding)
    table, X, notice = removal.opened(
        data, fields, rows, test, max_rows, host, scope, n_estimators, seed, cache, out
    )
    coalitions = min(budget or EXACT_COALITIONS, 2**table.columns.groups)
    if dry_run:
        removal.say_estimate(table, coalitions, len(X))
        return
    found = attribute(
        table, X, budget=budget, order=order, seed=seed, progress=removal.progress_of("coalitions")
    )
    names = [str(name) for name in X.columns]
    importances = found.importances.importances_mean
    kind = f"{found.coalitions} coalitions, " + ("all there are" if found.exact else "sampled")
    header = f"Columns of {data}, {len(X)} rows explained ({kind})"
    typer.echo(f"{header}\n\n{ranked(names, importances, 'column', 'mean absolute value')}")
    if out is None:
        return
    long = frame_of(
        {
            "row": [row for row in range(len(X)) for _ in names],
            "column": names * len(X),
            "value": found.main.ravel(),
            "base": found.base.repeat(len(names)),
            "prediction": found.predictions.repeat(len(names)),
        }
    )
    interactions = frame_of(_interactions(found, names))
    title = f"What the columns of {data} add to predictions"
    picture = (
        [bars("importances", title, names, importances, "mean absolute Shapley value")]
        if figures
        else []
    )
    parts = [
        f"{header}. Values are in units of the target; with the base they sum to the prediction.",
        ranked(names, importances, "column", "mean absolute value"),
        *["![Importance of the columns](importances.svg)" for _ in picture],
    ]
    tables = {"attributions": long, "interactions": interactions}
    text = page(title, command_line(), scope, notice, parts)
    record = removal.record_of(scope=scope, coalitions=found.coalitions, exact=found.exact)
    say_written(write_study(out, "explain", tables, text, record, pictures=picture))


def _interactions(found: Any, names: list[str]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"row": [], "columns": [], "value": []}
    for row, own in enumerate(found.values):
        for members, place in own.interaction_lookup.items():
            if members:
                columns["row"].append(row)
                columns["columns"].append(" x ".join(names[member] for member in members))
                columns["value"].append(float(own.values[place]))
    return columns
