"""Which files of a results folder are oretro's: nobody else's is removed or written over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.errors import ResultsError
from experiments.io.json_file import UnreadableJsonError, read_object
from retrofit.files.atomic import remove_leftovers

if TYPE_CHECKING:
    from pathlib import Path

TABLES = (
    "cases.csv",
    "deltas.csv",
    "noise.csv",
    "summary.csv",
    "summary.md",
    "coverage.csv",
    "metrics.csv",
    "predictions.parquet",
    "presence_sweep.csv",
    "baselines.csv",
    "baselines.md",
)
REPORT_FILES = ("report.md", "report.html", "summary.tex")
FIGURES = ("forest", "tau", "presence_sweep", "predictions")
RECORD_FOLDERS = ("cases", "noise")
_RUN = "run.json"
_FIGURE_FOLDER = "figures"
_FIGURE_ENDINGS = (".svg", ".png")
_RECORD_FIELDS = {"version", "digest", "key", "row", "details"}


def clear_folder(folder: Path) -> None:
    """Remove what an earlier run or report wrote, and nothing else.

    Records are known by what they hold; tables, reports and figures, which anybody could have
    named so, by the run record or the records beside them.
    """
    records = _records(folder)
    if records or _is_run_record(folder / _RUN):
        figures = folder / _FIGURE_FOLDER
        named = [folder / name for name in (*TABLES, *REPORT_FILES)]
        named += [figures / f"{name}{ending}" for name in FIGURES for ending in _FIGURE_ENDINGS]
        # Last, so that a clearing that is stopped can be finished.
        for path in (*named, *records, folder / _RUN):
            path.unlink(missing_ok=True)
        if figures.is_dir() and not any(figures.iterdir()):
            figures.rmdir()


def sweep_leftovers(folder: Path) -> None:
    """Remove what killed runs left half-written, in a folder that this process holds."""
    for name in ("", *RECORD_FOLDERS, _FIGURE_FOLDER):
        remove_leftovers(folder / name)


def refuse_foreign_files(folder: Path) -> None:
    """Make sure that no table of somebody else's would be written over.

    Raises:
        ResultsError: a file has the name of one of oretro's, and no run of oretro was here.
    """
    if _is_run_record(folder / _RUN) or _records(folder):
        return
    for name in (_RUN, *TABLES):
        if (folder / name).exists():
            raise ResultsError(
                f"{folder / name} was not written by 'oretro eval' and would be written over; "
                "choose another --out, or move the file away"
            )


def _records(folder: Path) -> list[Path]:
    paths = [path for name in RECORD_FOLDERS for path in (folder / name).glob("*.json")]
    return [path for path in paths if _fields(path).keys() >= _RECORD_FIELDS]


def _is_run_record(path: Path) -> bool:
    content = _fields(path)
    config, versions = content.get("config"), content.get("versions")
    return (
        isinstance(config, dict)
        and "suite" in config
        and isinstance(versions, dict)
        and "oretro" in versions
    )


def _fields(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty for anything else."""
    try:
        return read_object(path)
    except (OSError, UnreadableJsonError):
        return {}
