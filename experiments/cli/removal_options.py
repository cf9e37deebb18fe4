"""What the commands of removal share: their options, and the table that they open."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from experiments.removal.subject import Subject
    from retrofit import Removable

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
Kept = Annotated[Path | None, typer.Option("--answers", help="Folder that answers are kept in.")]
Rows = Annotated[
    str | None, typer.Option(help="Numbers of rows, separated by commas; left out of the table.")
]
NewRows = Annotated[Path | None, typer.Option("--test", help="File with the rows to answer for.")]
MaxRows = Annotated[
    int | None, typer.Option(min=2, help="Draw so many rows of the table, by the seed.")
]


def fields_of(
    target: str | None,
    drop: list[str] | None,
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
) -> dict[str, Any]:
    """Fields of a file that were given as options."""
    from experiments.cli.data_options import file_fields

    return file_fields(
        target=target, drop=drop, delimiter=delimiter, decimal=decimal, encoding=encoding
    )


def subject_of(data: str, fields: dict[str, Any], max_rows: int | None, seed: int) -> Subject:
    """The table, with what is to be said of it said, and at most so many rows of it."""
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


def asked_rows(
    subject: Subject, rows: str | None, test: Path | None
) -> tuple[Subject, pd.DataFrame]:
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


def table_of(
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


def opened(
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
    """The removable table, the rows to answer for, and the notice."""
    subject, X = asked_rows(subject_of(data, fields, max_rows, seed), rows, test)
    table, notice = table_of(subject, host, scope, members, seed, cache, out)
    return table, X, notice


def say_estimate(table: Removable, coalitions: int, test_rows: int) -> None:
    """Print what answering so many coalitions would take."""
    found = table.estimate(coalitions, test_rows)
    typer.echo(
        f"{coalitions} coalitions, scope {table.scope}: about {found.passes} passes, "
        f"{found.memory_mb:.0f} MiB, {found.seconds:.0f} s"
    )


def progress_of(what: str) -> Callable[[int, int], None]:
    """A line on stderr that says how much is done, and how long the rest takes."""
    start = time.monotonic()

    def show(done: int, total: int) -> None:
        left = (time.monotonic() - start) / done * (total - done)
        end = "\n" if done == total else "\r" if sys.stderr.isatty() else "\n"
        typer.echo(f"{done} of {total} {what}, {left:.0f} s left{end}", err=True, nl=False)

    return show


def record_of(**facts: Any) -> dict[str, Any]:
    """The record that goes beside the results."""
    from experiments.cli.output import command_line
    from experiments.machine.provenance import record

    return record(command_line(), **facts)
