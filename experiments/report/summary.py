"""Everything that a results folder says, as one object: read from its CSV files and ``run.json``.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.report import stats
from experiments.report.scores import ScoreChange, own_names, score_changes, with_side_tables
from experiments.sweep import run_record, schema
from experiments.sweep.folder.results import read_cases
from experiments.sweep.variant_name import STOCK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

BASELINES = ("ridge", "knn", "random_forest", "gradient_boosting")


@dataclass(frozen=True)
class NoiseFloor:
    """How far stock's RMSE moves against itself, in percent."""

    condition: str
    cases: int
    mean_abs_pct: float
    largest_pct: float


@dataclass(frozen=True)
class NullRadius:
    """Carrier norm at which presence is one half, relative to its stream's median norm."""

    median: float
    max: float


@dataclass(frozen=True, eq=False)
class BaselineRatio:
    """RMSE of the stock host over that of a baseline: geometric means; below 1 the host wins."""

    baseline: str
    by_dataset: dict[str, float]
    overall: float


@dataclass(frozen=True, eq=False)
class Summary:
    """All that the tables of one folder say."""

    variants: tuple[stats.VariantSummary, ...]
    noise: tuple[NoiseFloor, ...]
    null_radius: dict[str, NullRadius]
    scores: tuple[ScoreChange, ...]
    """The scores but RMSE beside stock's, in the order of ``variants``."""
    own: tuple[str, ...]
    """Names of the scorers among them that this run was asked for."""
    baselines: tuple[BaselineRatio, ...]
    statuses: dict[str, int]
    """Rows of ``cases.csv`` by status."""
    failures: tuple[str, ...]
    """One line per failed row."""
    notes: tuple[str, ...]
    """One line per case and reason: why its rows are not scored, or what is odd about them."""
    pairs: pd.DataFrame
    """``deltas.csv`` (see ``stats.paired``)."""
    run: dict[str, Any]
    """``run.json``; empty where there is none."""

    @property
    def noise_pct(self) -> float:
        """The largest change of stock against itself; NaN where it was not measured."""
        return max((floor.largest_pct for floor in self.noise), default=math.nan)

    def radius(self, variant: str) -> NullRadius:
        """The null radius of a variant; NaN where its patch is not recorded."""
        return self.null_radius.get(variant, NullRadius(math.nan, math.nan))

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that ran; empty where it is not known."""
        config: dict[str, Any] = self.run.get("config", {})
        return config

    @property
    def data_notes(self) -> tuple[str, ...]:
        """What was odd about the tables and what was made of it, one line each."""
        tables = self.run.get("tables", {})
        return tuple(
            f"{name}: {note}" for name, table in tables.items() for note in table.get("notes", ())
        )

    @property
    def suite(self) -> str:
        """What was compared."""
        return str(self.config.get("suite", "results"))

    @property
    def host(self) -> str:
        """The name of the host."""
        return str(self.config.get("host", "unknown"))

    @property
    def built_in(self) -> bool:
        """Whether it is the one that this project trained."""
        return bool(self.run.get("host", {}).get("built_in"))


def summarise_folder(folder: Path, *, margin_pct: float) -> Summary:
    """Read a results folder.

    Raises:
        ResultsError: ``cases.csv`` is missing or cannot be trusted.
    """
    run = run_record.read(folder)
    cases = read_cases(folder / "cases.csv")
    run_record.check_tables(folder, run)
    noise = _noise_floors(folder, cases)
    largest = max((floor.largest_pct for floor in noise), default=0.0)
    pairs = stats.paired(cases[~cases["variant"].isin(BASELINES)])
    names = sorted(pairs["variant"].unique(), key=schema.variant_rank)
    failed = cases[cases["status"] == "failed"]
    scored = with_side_tables(folder, cases)
    own = own_names(name for name in scored.columns if name not in cases.columns)
    return Summary(
        variants=tuple(
            stats.summarise(pairs, name, margin_pct=margin_pct, noise_pct=largest) for name in names
        ),
        noise=noise,
        null_radius=_null_radii(run),
        scores=score_changes(scored, names, own),
        own=own,
        baselines=tuple(
            BaselineRatio(name, *stats.geometric_mean_ratio(cases, name))
            for name in BASELINES
            if name in set(cases["variant"])
        ),
        statuses={str(name): int(n) for name, n in cases["status"].value_counts().items()},
        failures=tuple(
            f"{row.dataset}, seed {row.seed}, {row.variant}: {row.error}"
            for row in failed.itertuples()
        ),
        notes=tuple(_notes(cases)),
        pairs=pairs,
        run=run,
    )


def _notes(cases: pd.DataFrame) -> Iterator[str]:
    noted = cases[cases["error"] != ""]
    by = ["dataset", "seed", "status", "error"]
    for (dataset, seed, status, error), rows in noted.groupby(by, sort=False):
        yield f"{dataset}, seed {seed}, {', '.join(rows['variant'])}: {status}: {error}"


def _noise_floors(folder: Path, cases: pd.DataFrame) -> tuple[NoiseFloor, ...]:
    path = folder / "noise.csv"
    if not path.is_file():
        return ()
    import pandas as pd

    reruns = read_cases(path)
    pairs = stats.paired(pd.concat([cases[cases["variant"] == STOCK], reruns]))
    floors = []
    for condition, own in pairs[pairs["note"] == ""].groupby("variant", sort=True):
        changes = own["delta_pct"].abs().dropna()
        if len(changes):
            mean, largest = float(changes.mean()), float(changes.max())
            floors.append(NoiseFloor(str(condition), len(changes), mean, largest))
    return tuple(floors)


def _null_radii(run: dict[str, Any]) -> dict[str, NullRadius]:
    radii = {}
    for name, report in run.get("patches", {}).items():
        values = [
            stream["null_radius"]
            for stream in report.get("streams", [])
            if stream.get("tau") is not None
        ]
        if values:
            radii[name] = NullRadius(median(values), max(values))
    return radii
