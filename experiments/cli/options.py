"""Every option of the commands: its type, its help and its range stand here once.

A help text ends with the default where the signature does not say it. What only one command knows
stands in that command.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class EpsMode(str, Enum):
    """What eps_den is relative to."""

    absolute = "absolute"
    relative = "relative"


Host = Annotated[str, typer.Argument(help="mini, an official name, or a path.")]
Config = Annotated[
    str, typer.Argument(help="A YAML file, or the name of a built-in configuration.")
]
Variant = Annotated[str, typer.Option(help="oa, full or closed.")]

# What tau follows from.
TargetPresence = Annotated[
    float | None, typer.Option(help="Presence of the carriers' first percentile. [0.999]")
]
TargetPresences = Annotated[
    list[float] | None,
    typer.Option(
        "--target-presence",
        help="Presence of the carriers' first percentile; may be repeated. [0.999]",
    ),
]
EpsDen = Annotated[
    float | None, typer.Option(min=0, help="Mass of attention's value-less source. [1e-8]")
]
EpsModes = Annotated[
    EpsMode | None,
    typer.Option(help="Scale of --eps-den: raw, or the largest present term's. [absolute]"),
]

# Tables of the user's own, and of OpenML.
Tables = Annotated[
    list[Path] | None,
    typer.Option(
        "--table",
        help="CSV or parquet file to calibrate on, not one to evaluate on; may be repeated. "
        "[seeded synthetic tables]",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Column to predict: one for all tables, or one for each."),
]
Target = Annotated[str | None, typer.Option("--target", help="Column of the file to predict.")]
Dropped = Annotated[
    list[str] | None,
    typer.Option("--drop", help="Column of a file to leave out; may be repeated."),
]
Words = Annotated[
    list[str] | None,
    typer.Option("--words", help="Column of a file whose numbers are names; may be repeated."),
]
Text = Annotated[
    list[str] | None,
    typer.Option("--text", help="Column of free text, hashed word by word; may be repeated."),
]
Dates = Annotated[
    str | None,
    typer.Option("--dates", help="parts: year, month, day, weekday and days of dates. [refuse]"),
]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help="Decimal mark of a file: '.' or ','. [.]")
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", help="Mark between the cells of a CSV, or 'tab'. [its header's]"),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Encoding of a CSV, such as cp1252. [utf-8]")
]
Cache = Annotated[Path | None, typer.Option(help="OpenML cache folder. [the client's own]")]
Offline = Annotated[
    bool, typer.Option("--offline", help="OpenML from the cache alone; never use the network.")
]

# How a command runs, and what it leaves.
Threads = Annotated[int, typer.Option(min=0, help="Threads of torch; 0: as it is.")]
_DEVICES = "cpu, cuda, cuda:N, mps or auto."
Device = Annotated[str, typer.Option(help=_DEVICES)]
SweepDevice = Annotated[str | None, typer.Option(help=f"{_DEVICES} [cpu]")]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for tables, page and run record; none by default."),
]
Figures = Annotated[
    bool,
    typer.Option(
        "--figures/--no-figures", " /--no-figure", help="Draw figures too, which needs matplotlib."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; load no weights.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
