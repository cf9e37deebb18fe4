"""tau per stream, from the carriers that a stock host shows on calibration tables.

The smallest legitimate carriers must keep their presence: the first percentile of ``|h|^2`` among
active tokens gets the target presence t, that is ``tau = q01 * (1 - t) / t``. A median would not
do: one stream can hold tokens whose squared norms differ a thousandfold. Nor does a percentile see
tokens that are rarer than it: a patch report warns where the smallest carrier falls far below t.

Shapes: B batch, S receivers, J sources, H heads, D head width, E model width.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from tabpfn.errors import TabPFNUserError
from torch import Tensor

from retrofit.config import RetrofitConfig, TargetPresence
from retrofit.errors import CalibrationError
from retrofit.files.digest import arrays_sha256
from retrofit.hosts.clone import alias
from retrofit.hosts.probe import Probe, probing
from retrofit.hosts.report import QUANTILE, StreamReport, TableRecord, package_versions
from retrofit.patching.calibration import Calibration
from retrofit.patching.plan import plan
from retrofit.patching.target_range import target_fault
from retrofit.words import DEFAULT_TARGET_PRESENCE, Variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from retrofit.hosts.host import Host

TRAIN_SHARE = 0.7
MIN_ROWS = 3
"""Two to fit on and one to predict."""
ESTIMATORS = 2
_SCORES = 2**21
"""Scores that are held at a time where the mass of eps_den is measured, 16 MiB in float64."""
SIGNIFICANT_DIGITS = 4
"""Digits of tau, so that the last bits of a sum, which a thread count can move, do not."""


@dataclass(frozen=True, eq=False)
class CalibrationTable:
    """One table: features (rows, columns) and targets (rows,); never an evaluation row.

    Both are copied.
    """

    name: str
    X: ArrayLike
    y: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", copy.deepcopy(self.X))
        object.__setattr__(self, "y", copy.deepcopy(self.y))


@dataclass(frozen=True)
class Survey:
    """What a patched host showed while it predicted the calibration tables."""

    squared_norms: dict[str, np.ndarray]
    """``|h|^2`` of every active token, per stream, in float64."""
    calls: Counter[str]
    """How often each site ran."""
    eps_shares: dict[str, float]
    """Largest share of attention mass that eps_den took, per attention site."""


def synthetic_tables(seed: int = 0) -> list[CalibrationTable]:
    """Small seeded tables: linear, interacting and stepped targets; heavy tails and gaps."""
    rng = np.random.default_rng(seed)
    tables = []
    for index, (rows, columns) in enumerate([(60, 4), (200, 8), (320, 12)]):
        X = rng.normal(size=(rows, columns))
        X[:, 1] = np.exp(X[:, 1])
        X[:, 2] = rng.integers(0, 5, size=rows)
        y = X[:, 0] + 0.5 * X[:, 0] * X[:, -1] + (X[:, 2] > 2) + 0.1 * rng.normal(size=rows)
        X[rng.random(X.shape) < 0.02] = np.nan
        tables.append(CalibrationTable(f"synthetic-{seed}-{index}", X, y))
    return tables


def survey(host: Host, config: RetrofitConfig, tables: Sequence[CalibrationTable]) -> Survey:
    """Predict the held-out part of each table with ``host`` patched by ``config``, and watch.

    Runs on the CPU in float32. The host itself is not changed.

    Raises:
        CalibrationError: there is no table, or one cannot be used.
    """
    if not tables:
        msg = "there are no calibration tables; leave them out to use the built-in synthetic ones"
        raise CalibrationError(msg)
    model = alias(host.model)
    host.generation.swap(model, config)
    watched = dataclasses.replace(host, model=model)
    watcher = _Watcher(config)
    for table in tables:
        X, y = _arrays(table)
        train = math.floor(TRAIN_SHARE * len(y))
        regressor = watched.regressor(
            n_estimators=ESTIMATORS, random_state=0, device="cpu", ignore_pretraining_limits=True
        )
        try:
            regressor.fit(X[:train], y[:train])
            with probing(watcher):
                regressor.predict(X[train:])
        except TabPFNUserError as error:
            msg = f"calibration table {table.name!r}: tabpfn refuses it: {error}"
            raise CalibrationError(msg) from error
    return watcher.survey()


@dataclass(frozen=True, eq=False)
class Carriers:
    """How large the carriers of a stock host are on calibration tables."""

    host_name: str
    host_sha256: str
    variant: Variant
    squared_norms: dict[str, np.ndarray]
    """``|h|^2`` of every active token (tokens,), for each stream that ``variant`` needs."""
    tables: list[TableRecord]

    def calibration(self, target_presence: float = DEFAULT_TARGET_PRESENCE) -> Calibration:
        """tau such that each stream's first percentile of ``|h|^2`` has ``target_presence``.

        Raises:
            CalibrationError: ``target_presence`` does not lie strictly between 0 and 1.
        """
        require_target(target_presence)
        return Calibration(
            variant=self.variant,
            target_presence=target_presence,
            host_name=self.host_name,
            host_sha256=self.host_sha256,
            streams=[
                StreamReport.of(name, _tau(norms, target_presence), norms)
                for name, norms in self.squared_norms.items()
            ],
            tables=self.tables,
            versions=package_versions(),
        )


def measure_carriers(
    host: Host, variant: Variant, tables: Sequence[CalibrationTable] | None = None
) -> Carriers:
    """Predict the held-out part of each table with a stock host, and measure its carriers.

    Presence is forced to 1 meanwhile, so they are the stock host's own. One measurement serves
    any number of target presences.

    Args:
        host: A stock host. It is not changed.
        variant: ``oa``, ``full`` or ``closed``, which decides the streams.
        tables: None for seeded synthetic ones. Never rows that the host is evaluated on.

    Raises:
        RetrofitError: the first reason not to patch this host.
        CalibrationError: a table cannot be used, or a stream showed no active token.
    """
    the_plan = plan(host, variant)
    the_plan.require_no_problem()
    chosen = synthetic_tables() if tables is None else list(tables)
    stock_like = RetrofitConfig(variant=variant, presence="one", tau={}, eps_den=0.0)
    seen = survey(host, stock_like, chosen).squared_norms
    return Carriers(
        host_name=host.name,
        host_sha256=host.sha256,
        variant=variant,
        squared_norms={name: active(seen, name) for name in the_plan.streams},
        tables=[record(table) for table in chosen],
    )


def calibrate(
    host: Host,
    variant: Variant,
    *,
    target_presence: float = DEFAULT_TARGET_PRESENCE,
    tables: Sequence[CalibrationTable] | None = None,
) -> Calibration:
    """tau per stream, for ``retrofit.patch(host, variant, tau=...)`` or a file.

    ``measure_carriers`` followed by ``Carriers.calibration``: see there for the arguments.

    Raises:
        RetrofitError: the first reason not to patch this host.
        CalibrationError: tau cannot be set from the tables, or not for this target.
    """
    require_target(target_presence)
    return measure_carriers(host, variant, tables).calibration(target_presence)


def require_target(target_presence: float) -> None:
    """Check a target presence before anything is measured for it.

    Raises:
        CalibrationError: it does not lie strictly between 0 and 1.
    """
    try:
        TypeAdapter(TargetPresence).validate_python(target_presence)
    except ValidationError as error:
        msg = f"target_presence is {target_presence}; it must lie strictly between 0 and 1"
        raise CalibrationError(msg) from error


def active(squared_norms: Mapping[str, np.ndarray], stream: str) -> np.ndarray:
    """``|h|^2`` of the active tokens of one stream (tokens,), at least one.

    Raises:
        CalibrationError: the calibration tables put no token into the stream.
    """
    norms = squared_norms.get(stream)
    if norms is None or not norms.size:
        msg = (
            f"stream {stream} showed no active token on the calibration tables (a constant target "
            "runs no network), so nothing is known of it; give other tables"
        )
        raise CalibrationError(msg)
    return norms


def record(table: CalibrationTable) -> TableRecord:
    """Name, size and content hash of a table.

    Raises:
        CalibrationError: the table cannot be used.
    """
    X, y = _arrays(table)
    rows, columns = X.shape
    return TableRecord(table.name, rows, columns, arrays_sha256(X, y))


def _tau(squared_norms: np.ndarray, target_presence: float) -> float:
    q01 = float(np.quantile(squared_norms, QUANTILE))
    exact = q01 * (1 - target_presence) / target_presence
    return float(f"{exact:.{SIGNIFICANT_DIGITS}g}")


def _arrays(table: CalibrationTable) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets as float arrays that tabpfn can fit and predict.

    Raises:
        CalibrationError: they are not numbers, too few or too large, or no host learns from them.
    """
    try:
        X, y = np.asarray(table.X, dtype=float), np.asarray(table.y, dtype=float)
    except (TypeError, ValueError) as error:
        msg = f"calibration table {table.name!r} is not numeric ({error}); encode its text columns"
        raise CalibrationError(msg) from error
    if X.ndim != 2 or y.shape != X.shape[:1] or X.shape[1] == 0 or len(y) < MIN_ROWS:
        msg = (
            f"calibration table {table.name!r} has features of shape {X.shape} and targets of "
            f"shape {y.shape}; it needs (rows, columns) and (rows,), a column, and at least "
            f"{MIN_ROWS} rows"
        )
        raise CalibrationError(msg)
    if not np.isfinite(y).all() or np.isinf(X).any():
        msg = f"calibration table {table.name!r} has a target that is not finite, or an infinity"
        raise CalibrationError(msg)
    y_train = y[: math.floor(TRAIN_SHARE * len(y))]
    if fault := target_fault(y_train, "the target"):
        msg = f"calibration table {table.name!r}: {fault}"
        raise CalibrationError(msg)
    if np.ptp(y_train) == 0:
        msg = (
            f"calibration table {table.name!r}: its first {len(y_train)} targets, which a host is "
            "fitted on, are all equal, so that no network would run; shuffle the rows or give "
            "another table"
        )
        raise CalibrationError(msg)
    return X, y


@dataclass
class _Watcher(Probe):
    config: RetrofitConfig
    norms: dict[str, list[np.ndarray]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    shares: dict[str, float] = field(default_factory=dict)

    def carrier(self, stream: str, h: Tensor) -> None:
        squared = h.detach().double().square().sum(-1).flatten().cpu().numpy()
        self.norms.setdefault(stream, []).append(squared[squared > 0])

    def visit(self, site: str) -> None:
        self.calls[site] += 1

    def attention(self, site: str, q_BHSD: Tensor, k_BHJD: Tensor, p_BJ: Tensor) -> None:
        if self.config.eps_den > 0 and q_BHSD.numel() and k_BHJD.numel():
            share = _largest_eps_share(q_BHSD, k_BHJD, p_BJ, self.config)
            self.shares[site] = max(share, self.shares.get(site, 0.0))

    def survey(self) -> Survey:
        norms = {stream: np.concatenate(parts) for stream, parts in self.norms.items()}
        return Survey(norms, self.calls, self.shares)


def _largest_eps_share(
    q_BHSD: Tensor, k_BHJD: Tensor, p_BJ: Tensor, config: RetrofitConfig
) -> float:
    """Largest ``eps / (eps + sum_j p_j exp(s_ij))`` over receivers and heads.

    The scores are formed in parts, so that a long table needs little more memory than it has rows.
    """
    batch, heads, receivers, _ = q_BHSD.shape
    rows = max(1, min(receivers, _SCORES // (heads * k_BHJD.shape[2])))
    elements = max(1, _SCORES // (heads * k_BHJD.shape[2] * rows))
    return max(
        _part_eps_share(q_BHSD[b, :, s : s + rows], k_BHJD[b], p_BJ[b], config)
        for b in (slice(start, start + elements) for start in range(0, batch, elements))
        for s in range(0, receivers, rows)
    )


def _part_eps_share(q_BHSD: Tensor, k_BHJD: Tensor, p_BJ: Tensor, config: RetrofitConfig) -> float:
    keys = k_BHJD.repeat_interleave(q_BHSD.shape[1] // k_BHJD.shape[1], dim=1)
    scores_BHSJ = q_BHSD @ keys.transpose(-1, -2) * q_BHSD.shape[-1] ** -0.5
    logits_BHSJ = scores_BHSJ.double() + p_BJ.double().log()[:, None, None, :]
    mass_BHS = logits_BHSJ.logsumexp(-1)
    if config.eps_mode == "relative":
        mass_BHS = mass_BHS - logits_BHSJ.amax(-1)
    # A receiver without any present source has no mass that eps could take.
    mass_BHS = mass_BHS[torch.isfinite(mass_BHS)]
    if not mass_BHS.numel():
        return 0.0
    return float(torch.sigmoid(math.log(config.eps_den) - mass_BHS).max())
