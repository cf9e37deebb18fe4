"""``oretro explain``, ``values`` and ``intervals``: removal without refits, put to use."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from experiments.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from experiments.removal.subject import Subject
    from retrofit import Removable

EXPLAIN_EXAMPLES = """\b
Examples:
  oretro explain diabetes --rows 0,1,2                  a packaged set, three of its rows
  oretro explain mine.csv --target price --rows 5 --out runs/explain
  oretro explain mine.csv --target price --test new.csv --order 2
"""
VALUES_EXAMPLES = """\b
Examples:
  oretro values diabetes                                leave-one-out value of every row
  oretro values mine.csv --target price --groups customer_id --kind shapley
"""
INTERVALS_EXAMPLES = """\b
Examples:
  oretro intervals mine.csv --target price --test new.csv
  oretro intervals diabetes --rows 0,1,2 --coverage 0.8 --folds 10
"""

Data = Annotated[str, typer.Argument(help="A file, or the name of a packaged data set.")]
HostOption = Annotated[str, typer.Option("--host", help="mini, an official name, or a path.")]
Scope = Annotated[
    str,
    typer.Option(
        help="model: prepared once, removed inside the model. pipeline: as a refit would answer."
    ),
]
Members = Annotated[int, typer.Option("--n-estimators", min=1, help="Ensemble members.")]
Seed = Annotated[int, typer.Option(help="Of the ensemble, splits and sampled coalitions.")]
Budget = Annotated[int | None, typer.Option(min=2, help="Coalitions to answer at most.")]
Kept = Annotated[Path | None, typer.Option("--cache", help="Folder that answers are kept in.")]
Rows = Annotated[
    str | None, typer.Option(help="Numbers of rows, separated by commas; left out of the table.")
]
NewRows = Annotated[Path | None, typer.Option("--test", help="File with the rows to answer for.")]
MaxRows = Annotated[
    int | None, typer.Option(min=2, help="Draw so many rows of the table, by the seed.")
]


def explain(
    data: Data,
    target: options.Target = None,
    rows: Rows = None,
    test: NewRows = None,
    host: HostOption = "mini",
    scope: Scope = "model",
    n_estimators: Members = 8,
    budget: Budget = None,
    order: Annotated[int, typer.Option(min=1, help="Columns in an interaction.")] = 1,
    max_rows: MaxRows = None,
    seed: Seed = 0,
    drop: options.Dropped = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    cache: Kept = None,
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

    fields = _fields(target, drop, delimiter, decimal, encoding)
    table, X, notice = _opened(
        data, fields, rows, test, max_rows, host, scope, n_estimators, seed, cache, out
    )
    coalitions = min(budget or EXACT_COALITIONS, 2**table.columns.groups)
    if dry_run:
        _say_estimate(table, coalitions, len(X))
        return
    found = attribute(
        table, X, budget=budget, order=order, seed=seed, progress=_progress("coalitions")
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
    record = _record(scope=scope, coalitions=found.coalitions, exact=found.exact)
    say_written(write_study(out, "explain", tables, text, record, pictures=picture))


def values(
    data: Data,
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
    host: HostOption = "mini",
    scope: Scope = "model",
    n_estimators: Members = 8,
    budget: Budget = None,
    max_rows: MaxRows = None,
    seed: Seed = 0,
    drop: options.Dropped = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    cache: Kept = None,
    out: options.OutFolder = None,
    dry_run: options.DryRun = False,
) -> None:
    """Tell what each row, or group of rows, is worth for predicting the others, without refits."""
    from experiments.cli.output import command_line, say_written
    from experiments.data.splits import draw_split
    from experiments.removal.values import row_values
    from experiments.removal.write import frame_of, page, ranked
    from experiments.studies.writer import write_study

    fields = _fields(target, drop, delimiter, decimal, encoding)
    subject = _subject(data, fields, max_rows, seed)
    split = draw_split(data, seed, len(subject.kept), validation)
    subject = subject.without([int(row) for row in subject.kept[split.test]])
    table, notice = _table(
        subject, host, scope, n_estimators, seed, cache, out,
        row_groups=None if groups is None else subject.groups(groups),
    )  # fmt: skip
    held = subject.table.X.iloc[subject.left_out].reset_index(drop=True)
    truth = subject.table.y[subject.left_out]
    count = table.rows.groups if kind == "loo" else budget or 20 * table.rows.groups
    if dry_run:
        _say_estimate(table, count, len(held))
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
    record = _record(
        scope=scope, kind=cast("Any", kind), metric=metric, coalitions=found.coalitions
    )
    say_written(write_study(out, "values", tables, text, record))


def intervals(
    data: Data,
    target: options.Target = None,
    rows: Rows = None,
    test: NewRows = None,
    coverage: Annotated[
        float, typer.Option(min=0.01, max=0.999, help="Probability that the target is inside.")
    ] = 0.9,
    folds: Annotated[
        int, typer.Option(min=0, help="Folds to hold out; 0: every row by itself.")
    ] = 0,
    host: HostOption = "mini",
    scope: Scope = "pipeline",
    n_estimators: Members = 8,
    max_rows: MaxRows = None,
    seed: Seed = 0,
    drop: options.Dropped = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    cache: Kept = None,
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

    fields = _fields(target, drop, delimiter, decimal, encoding)
    subject = _subject(data, fields, max_rows, seed)
    subject, X = _asked(subject, rows, test)
    labels = None
    if folds:
        labels = np.random.default_rng(seed).permutation(len(subject.kept)) % folds
    table, notice = _table(subject, host, scope, n_estimators, seed, cache, out, row_groups=labels)
    if dry_run:
        _say_estimate(table, 2 * table.rows.groups, len(X))
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
    record = _record(scope=scope, coverage=coverage, folds=table.rows.groups)
    say_written(write_study(out, "intervals", {"intervals": frame}, text, record))


def _fields(
    target: str | None,
    drop: list[str] | None,
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
) -> dict[str, Any]:
    from experiments.cli.data_options import file_fields

    return file_fields(
        target=target, drop=drop, delimiter=delimiter, decimal=decimal, encoding=encoding
    )


def _subject(data: str, fields: dict[str, Any], max_rows: int | None, seed: int) -> Subject:
    import numpy as np

    from experiments.cli.output import say
    from experiments.removal.subject import load_subject

    subject = load_subject(data, fields)
    for note in subject.table.notes:
        say(f"note: {note}")
    if max_rows is not None and max_rows < len(subject.kept):
        drawn = np.random.default_rng(seed).permutation(len(subject.kept))
        subject = subject.without([int(row) for row in drawn[max_rows:]])
    return subject


def _asked(subject: Subject, rows: str | None, test: Path | None) -> tuple[Subject, pd.DataFrame]:
    """The rows to answer for: some of the table's own, which then leave it, or a file's."""
    from experiments.errors import ConfigError

    if (rows is None) == (test is None):
        raise ConfigError("give --rows NUMBERS of the table, or --test FILE with new rows")
    if test is not None:
        return subject, subject.new_rows(test)
    try:
        numbers = [int(part) for part in str(rows).split(",")]
    except ValueError:
        raise ConfigError(f"--rows {rows}: give row numbers separated by commas") from None
    rest = subject.without(numbers)
    return rest, subject.table.X.iloc[rest.left_out].reset_index(drop=True)


def _table(
    subject: Subject,
    host: str,
    scope: str,
    members: int,
    seed: int,
    cache: Path | None,
    out: Path | None,
    **groups: Any,
) -> tuple[Removable, str]:
    """The removable table, and what must be said where its figures appear."""
    import retrofit
    from experiments.cli.output import built_in_notice, say
    from experiments.io.writable import prepare_out
    from experiments.removal.subject import removable

    if out is not None:
        prepare_out(out)
    settings = {"n_estimators": members, "random_state": seed, "device": "cpu"}
    table = removable(subject, host, scope, cache=cache, **groups, **settings)
    notice = built_in_notice(retrofit.describe_host(host).sha256)
    if notice:
        say(notice)
    return table, notice


def _opened(
    data: str,
    fields: dict[str, Any],
    rows: str | None,
    test: Path | None,
    max_rows: int | None,
    host: str,
    scope: str,
    members: int,
    seed: int,
    cache: Path | None,
    out: Path | None,
) -> tuple[Removable, pd.DataFrame, str]:
    subject, X = _asked(_subject(data, fields, max_rows, seed), rows, test)
    table, notice = _table(subject, host, scope, members, seed, cache, out)
    return table, X, notice


def _say_estimate(table: Removable, coalitions: int, test_rows: int) -> None:
    found = table.estimate(coalitions, test_rows)
    typer.echo(
        f"{coalitions} coalitions, scope {table.scope}: about {found.passes} passes, "
        f"{found.memory_mb:.0f} MiB, {found.seconds:.0f} s"
    )


def _progress(what: str) -> Callable[[int, int], None]:
    start = time.monotonic()

    def show(done: int, total: int) -> None:
        left = (time.monotonic() - start) / done * (total - done)
        end = "\n" if done == total else "\r" if sys.stderr.isatty() else "\n"
        typer.echo(f"{done} of {total} {what}, {left:.0f} s left{end}", err=True, nl=False)

    return show


def _record(**facts: Any) -> dict[str, Any]:
    from experiments.cli.output import command_line
    from experiments.machine.provenance import record

    return record(command_line(), **facts)


def _interactions(found: Any, names: list[str]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {"row": [], "columns": [], "value": []}
    for row, own in enumerate(found.values):
        for members, place in own.interaction_lookup.items():
            if members:
                columns["row"].append(row)
                columns["columns"].append(" x ".join(names[member] for member in members))
                columns["value"].append(float(own.values[place]))
    return columns
