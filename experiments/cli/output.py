"""What commands print: progress and remarks on stderr, results on stdout."""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from experiments.cli.app import PROGRAM
from experiments.sweep.schema import SCORED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from experiments.report.summary import Summary
    from experiments.sweep.run import Outcome, Progress

_NOTES_SAID = 10


def say(text: str) -> None:
    """Print a remark on stderr."""
    typer.echo(text, err=True)


def say_if_shadowed(name: str, what: str) -> None:
    """Say that a built-in name was taken, where a file here is called the same."""
    if Path(name).is_file():
        say(f"note: {name} is the built-in {what}; the file of that name here is ./{name}")


def progress(quiet: bool) -> Callable[[str], None]:
    """What a long command tells its remarks: stderr, or nobody."""
    return (lambda _: None) if quiet else say


def say_written(paths: Iterable[Path]) -> None:
    """Say which files are there now."""
    for path in paths:
        say(f"wrote {path}")


def command_line() -> list[str]:
    """The command as it was given, for the record."""
    return [PROGRAM, *sys.argv[1:]]


def built_in_notice(sha256: str) -> str:
    """What to say wherever figures of the built-in host appear; empty for any other host."""
    from experiments.report.remarks import notice
    from experiments.report.remarks import plain as sentence
    from retrofit.patching.sources import built_in_name

    name = built_in_name(sha256)
    return sentence(notice(name)) if name else ""


def print_json(value: Any) -> None:
    """Print one JSON document on stdout, NaN as null, in ASCII so that every console takes it."""
    typer.echo(json.dumps(plain(value), indent=1, ensure_ascii=True, allow_nan=False))


def plain(value: Any) -> Any:
    """Dataclasses, tuples and numpy scalars as plain JSON types; NaN and infinity as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout; the first column is text, the others are aligned right.

    A header of empty names is not shown.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    safe = (sys.stdout.encoding or "ascii").lower().startswith("utf")
    table = Table(
        title=printable(title) or None,
        title_justify="left",
        box=box.SIMPLE if safe else box.ASCII,
        show_header=any(header),
    )
    for index, name in enumerate(header):
        table.add_column(printable(name), justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*[printable(cell) for cell in row])
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def printable(text: str) -> str:
    """The text in what the console can show; a figure never gets lost for a dash."""
    encoding = sys.stdout.encoding or "ascii"
    ascii_dash = text.replace("–", "-").replace("…", "...")
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return ascii_dash.encode(encoding, "backslashreplace").decode(encoding)
    return text


@contextmanager
def progress_bar(*, enabled: bool) -> Iterator[Callable[[Progress], None]]:
    """Show progress on stderr while the block runs: a bar, or a line per row without a terminal."""
    if not enabled:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield lambda progress: say(f"[{progress.done}/{progress.total}] {_line(progress)}")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def update(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.done,
                total=progress.total,
                description=_line(progress),
            )

        yield update


def _line(progress: Progress) -> str:
    row = progress.row
    state = f"{row.predict_s:.2f} s" if row.status in SCORED else row.status
    return f"{row.dataset}, seed {row.seed}, {row.variant}: {state}"


def say_notes(notes: Sequence[str], table: Path) -> None:
    """Say on stderr what is odd about tables or rows; after some lines, where the others are."""
    from experiments.io.text import visible

    for note in notes[:_NOTES_SAID]:
        say(visible(note))
    if len(notes) > _NOTES_SAID:
        say(f"and {len(notes) - _NOTES_SAID} more such lines in {table}")


def summary_json(summary: Summary) -> dict[str, Any]:
    """Everything of a summary that programs may want, and what each score is."""
    from experiments.sweep.metrics import scores as registered

    names = [
        "statuses",
        "failures",
        "notes",
        "data_notes",
        "variants",
        "noise",
        "null_radius",
        "baselines",
        "run",
    ]
    about = ("name", "label", "better", "unit", "table")
    scores = {
        "variants": {item.variant: item.figures for item in summary.scores},
        "registry": [
            {name: getattr(score, name) for name in about} for score in registered(summary.own)
        ],
    }
    return {**{name: getattr(summary, name) for name in names}, "scores": scores}


def show_changes(summary: Summary) -> None:
    """Print the table that a comparison is for on stdout."""
    from experiments.report.contents import parts

    changes = parts(summary)["changes"]
    print_table(f"{summary.suite} on host {summary.host}: {changes.title}", *changes.table)


def show_summary(summary: Summary, outcome: Outcome, *, as_json: bool) -> None:
    """Print the summary of a sweep on stdout, and where its files are on stderr."""
    if as_json:
        computed, reused = outcome.computed, outcome.reused
        sweep = {"folder": str(outcome.folder), "computed": computed, "reused": reused}
        print_json({**sweep, **summary_json(summary)})
        return
    from experiments.report.contents import parts
    from experiments.report.remarks import plain as sentence
    from experiments.report.remarks import remarks

    found = parts(summary)
    print_table("", *found["cases"].table)
    show_changes(summary)
    for key in ("scores", "baselines"):
        if found[key].table.rows:
            print_table(found[key].title, *found[key].table)
    for remark in remarks(summary):
        typer.echo(printable(f"  {sentence(remark)}"))
    states = ", ".join(f"{count} {status}" for status, count in sorted(summary.statuses.items()))
    say(f"{states}; {outcome.computed} computed now, {outcome.reused} reused; {outcome.folder}")
