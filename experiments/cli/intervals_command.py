"""``oretro intervals``: predictions with bounds."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli import removal_options as removal

EXAMPLES = """\b
Examples:
  oretro intervals mine.csv --target price --test new.csv
  oretro intervals diabetes --rows 0,1,2 --coverage 0.8 --folds 10
"""


def intervals(
    data: removal.Data,
    target: options.Target = None,
    rows: removal.Rows = None,
    test: removal.NewRows = None,
    coverage: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Probability that the target is inside.")
    ] = 0.9,
    folds: Annotated[
        int, typer.Option(min=0, help="Folds to hold out; 0: every row by itself.")
    ] = 0,
    host: removal.HostOption = "mini",
    scope: removal.Scope = "pipeline",
    n_estimators: removal.Members = 8,
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
    """Predict with intervals that hold the target with a given probability, without refits."""
    import numpy as np

    from experiments.cli.output import command_line, say_written
    from experiments.removal.intervals import intervals as conformal
    from experiments.removal.write import frame_of, page
    from experiments.report import markdown
    from experiments.studies.writer import write_study

    fields = removal.fields_of(target, drop, delimiter, decimal, encoding)
    subject = removal.subject_of(data, fields, max_rows, seed)
    subject, X = removal.asked_rows(subject, rows, test)
    labels = None
    if folds:
        labels = np.random.default_rng(seed).permutation(len(subject.kept)) % folds
    table, notice = removal.table_of(
        subject, host, scope, n_estimators, seed, cache, out, row_groups=labels
    )
    if dry_run:
        removal.say_estimate(table, 2 * table.rows.groups, len(X))
        return
    found = conformal(table, X, coverage=coverage)
    frame = frame_of(
        {"row": range(len(X)), **{k: found[k] for k in ("prediction", "lower", "upper")}}
    )
    shown = frame.head(20)
    text_table = markdown.table(
        list(shown.columns),
        [[str(int(r)), *(f"{v:.4g}" for v in rest)] for r, *rest in shown.to_numpy()],
    )
    header = (
        f"Intervals of {len(X)} rows at {coverage:g}, {found.method}, "
        f"{table.rows.groups} folds of {len(subject.kept)} rows of {data}"
    )
    typer.echo(f"{header}\n\n{text_table}")
    if out is None:
        return
    parts = [f"{header}.", text_table]
    text = page(f"Intervals on {data}", command_line(), scope, notice, parts)
    record = removal.record_of(scope=scope, coverage=coverage, folds=table.rows.groups)
    say_written(write_study(out, "intervals", {"intervals": frame}, text, record))
