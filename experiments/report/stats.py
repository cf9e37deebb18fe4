"""Paired statistics of a sweep, from its rows alone.

Seeds of one data set share its rows, so they are not independent: intervals and tests are over
data sets, each represented by the mean of its seeds. Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from experiments.sweep.variant_name import STOCK

if TYPE_CHECKING:
    import pandas as pd

PAIR_COLUMNS = (
    "suite",
    "dataset",
    "seed",
    "variant",
    "rmse_stock",
    "rmse_variant",
    "delta_pct",
    "predict_ratio",
    "note",
)
_BOOTSTRAP_SEED = 20260801
_BOOTSTRAP_RESAMPLES = 10_000
_CONFIDENCE = 0.95
_EXACT_VALUES = 50
_EXACT_TIED_VALUES = 16


@dataclass(frozen=True)
class VariantSummary:
    """How one variant's RMSE compares with stock's; changes in percent of stock's RMSE."""

    variant: str
    cases: int
    """Complete pairs of scored rows."""
    left_out: int
    """Cases in which stock's or this variant's row is not ``ok``."""
    datasets: int
    mean_pct: float
    """Mean over cases: a data set with fewer complete cases weighs less, unlike in the interval."""
    median_pct: float
    largest_pct: float
    """Largest absolute change of one case."""
    ci_low_pct: float
    ci_high_pct: float
    """Bootstrap 95 % interval of the mean over data sets; NaN for fewer than two."""
    wins: int
    """Cases with a smaller RMSE than stock, by more than the noise floor."""
    ties: int
    losses: int
    wilcoxon_p: float
    """Two-sided signed-rank test over data sets; NaN if all changes are zero."""
    wilcoxon_p_min: float
    """The smallest p that so many data sets can give."""
    tost_margin_pct: float
    tost_p: float
    """Two one-sided t tests over data sets: small means equivalent within the margin."""
    predict_ratio: float
    """Median over cases of predict time relative to stock."""


def paired(cases: pd.DataFrame) -> pd.DataFrame:
    """One row per (data set, seed, variant) beside stock's row of the same case.

    Columns: ``PAIR_COLUMNS``. A change is 0 where both RMSE are equal, even both zero, and NaN
    (with a note) where one of the rows is missing or was not scored.
    """
    keys = ["suite", "dataset", "seed"]
    columns = [*keys, "rmse", "predict_s", "status"]
    stock = cases.loc[cases["variant"] == STOCK, columns]
    others = cases.loc[cases["variant"] != STOCK, [*columns, "variant"]]
    pairs: pd.DataFrame = others.merge(stock, on=keys, how="left", suffixes=("_variant", "_stock"))
    rmse, base = pairs["rmse_variant"].to_numpy(), pairs["rmse_stock"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        delta = np.where(rmse == base, 0.0, 100.0 * (rmse / base - 1.0))
        ratio = pairs["predict_s_variant"].to_numpy() / pairs["predict_s_stock"].to_numpy()
    pairs["delta_pct"] = np.where(np.isfinite(delta), delta, np.nan)
    pairs["predict_ratio"] = ratio
    pairs["note"] = [
        _note(*statuses)
        for statuses in zip(pairs["status_stock"], pairs["status_variant"], strict=True)
    ]
    undefined = (pairs["note"] == "") & (base == 0) & (rmse != 0)
    pairs.loc[undefined, "note"] = "stock's RMSE is 0: no change relative to it"
    chosen: pd.DataFrame = pairs[list(PAIR_COLUMNS)]
    return chosen


def _note(stock: object, variant: object) -> str:
    if not isinstance(stock, str):
        return "no stock row"
    if stock == variant == "constant":
        return "constant target: the network did not run"
    if stock == "dead":
        return "dead host: stock predicts one value for all rows"
    faults = [
        f"{name} {status}"
        for name, status in ((STOCK, stock), ("variant", variant))
        if status != "ok"
    ]
    return ", ".join(faults)


def summarise(
    pairs: pd.DataFrame, variant: str, *, margin_pct: float, noise_pct: float = 0.0
) -> VariantSummary:
    """Summarise the pairs of one variant; changes up to ``noise_pct`` count as ties.

    Only complete pairs of ``ok`` rows enter: a case that one side failed would shift the mean.
    """
    own = pairs[pairs["variant"] == variant]
    usable = own[(own["note"] == "") & own["delta_pct"].notna()]
    delta = usable["delta_pct"].to_numpy()
    by_dataset = usable.groupby(["suite", "dataset"], sort=True)["delta_pct"].mean().to_numpy()
    low, high = bootstrap_interval(by_dataset)
    p, p_min = wilcoxon(by_dataset)
    ratios = usable["predict_ratio"].dropna()
    some = delta.size > 0
    return VariantSummary(
        variant=variant,
        cases=len(usable),
        left_out=len(own) - len(usable),
        datasets=by_dataset.size,
        mean_pct=float(delta.mean()) if some else math.nan,
        median_pct=float(np.median(delta)) if some else math.nan,
        largest_pct=float(np.abs(delta).max()) if some else math.nan,
        ci_low_pct=low,
        ci_high_pct=high,
        wins=int((delta < -noise_pct).sum()),
        ties=int((np.abs(delta) <= noise_pct).sum()),
        losses=int((delta > noise_pct).sum()),
        wilcoxon_p=p,
        wilcoxon_p_min=p_min,
        tost_margin_pct=margin_pct,
        tost_p=equivalence_p(by_dataset, margin_pct),
        predict_ratio=float(ratios.median()) if len(ratios) else math.nan,
    )


def bootstrap_interval(values: np.ndarray) -> tuple[float, float]:
    """Seeded percentile bootstrap of the mean; (NaN, NaN) for fewer than two values."""
    if values.size < 2:
        return math.nan, math.nan
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    result = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=_BOOTSTRAP_RESAMPLES,
        confidence_level=_CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(_BOOTSTRAP_SEED),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def wilcoxon(values: np.ndarray) -> tuple[float, float]:
    """Two-sided signed-rank p and the smallest p attainable with as many nonzero values.

    With n values all of one sign the exact p is 2 / 2^n: 0.03125 for six data sets. p is exact up
    to 50 values, and with ties among their sizes up to 16; beyond, it is the normal approximation.
    """
    nonzero = values[values != 0]
    n = nonzero.size
    if n == 0:
        return math.nan, math.nan
    ties = np.unique(np.abs(nonzero)).size < n
    method: Any = "exact" if n <= _EXACT_VALUES else "asymptotic"
    if ties:
        patterns = stats.PermutationMethod(n_resamples=2**_EXACT_TIED_VALUES)
        method = patterns if n <= _EXACT_TIED_VALUES else "asymptotic"
    with warnings.catch_warnings():
        # Small samples are the normal case here; the attainable minimum says what it means.
        warnings.simplefilter("ignore", UserWarning)
        p = float(stats.wilcoxon(nonzero, method=method).pvalue)
    return p, 2.0 ** (1 - n)


def equivalence_p(values: np.ndarray, margin_pct: float) -> float:
    """Larger p of the two one-sided t tests of the mean against -margin and +margin."""
    if values.size < 2:
        return math.nan
    if np.ptp(values) == 0:
        return 0.0 if abs(values[0]) < margin_pct else 1.0
    above = stats.ttest_1samp(values, -margin_pct, alternative="greater").pvalue
    below = stats.ttest_1samp(values, margin_pct, alternative="less").pvalue
    return float(max(above, below))


def geometric_mean_ratio(
    cases: pd.DataFrame, baseline: str, subject: str = STOCK
) -> tuple[dict[str, float], float]:
    """RMSE of ``subject`` over that of ``baseline``: geometric mean per data set, and over them."""
    scored = cases[cases["status"] == "ok"]
    wide = scored.pivot_table(index=["dataset", "seed"], columns="variant", values="rmse")
    if subject not in wide or baseline not in wide:
        return {}, math.nan
    logs = np.log(wide[subject] / wide[baseline]).dropna()
    by_dataset = logs.groupby(level="dataset").mean()
    ratios = {str(name): math.exp(value) for name, value in by_dataset.items()}
    return ratios, math.exp(by_dataset.mean())
