"""The studies of removal by name, and what each of them leaves in a folder."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from experiments.errors import ConfigError
from experiments.machine import provenance
from experiments.report import markdown
from experiments.report.columns import show
from experiments.report.remarks import notice
from experiments.studies.removal import coverage, equality, gap, mislabelled
from experiments.studies.writer import write_study

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import ModuleType

    import pandas as pd

    from retrofit import Host

STUDIES: dict[str, tuple[str, ModuleType]] = {
    "gap": ("The two scopes beside each other", gap),
    "coverage": ("How often intervals hold the target", coverage),
    "mislabelled": ("Shuffled targets found by values", mislabelled),
    "equality": ("Scope pipeline beside refits", equality),
}


def run(name: str, host: Host, progress: Callable[[str], None] = lambda _: None) -> pd.DataFrame:
    """A frame with what the study of that name found.

    Raises:
        ConfigError: there is no such study.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    import pandas as pd

    import retrofit

    if name not in STUDIES:
        raise ConfigError(f"no study '{name}'; there are {', '.join(STUDIES)}")
    closed = retrofit.patch(host, "closed")
    found = STUDIES[name][1].measure(closed, progress)
    frame: pd.DataFrame = pd.DataFrame([vars(row) for row in found])
    return frame


def table(name: str, frame: pd.DataFrame) -> Any:
    """The study's table as cells; draws of one thing are averaged."""
    if "seed" in frame:
        keys = [column for column in ("data", "way") if column in frame]
        means = frame.drop(columns="seed").groupby(keys, sort=False).mean().reset_index()
        every = frame.drop(columns=["seed", "data"]).groupby("way", sort=False).mean()
        every.insert(0, "data", "mean")
        frame = _stacked(means, every.reset_index())
    return show(STUDIES[name][1].COLUMNS, list(frame.itertuples(index=False)))


def _stacked(*frames: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def write(
    folder: Path, name: str, host: Host, frame: pd.DataFrame, command: Sequence[str], built_in: bool
) -> list[Path]:
    """Write table, page and record.

    Raises:
        ResultsError: the folder cannot be written.
    """
    title, study = STUDIES[name]
    page = markdown.page(
        [
            f"# {title}, on `{host.name}`",
            markdown.line(notice(host.name)) if built_in else "",
            f"{study.SAYS} Made by `{shlex.join(command)}`.",
            markdown.table(*table(name, frame)),
        ]
    )
    record = provenance.record(command, host={"name": host.name, "sha256": host.sha256})
    return write_study(folder, name, {name: frame}, page, record)
