"""The synthetic tasks: reproducible, well-formed, learnable, and as configured."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from experiments.errors import PriorError
from experiments.prior import PriorConfig, Task, TaskShape, sample_task
from experiments.prior.config import FAMILIES, MARGINALS, WARPS
from experiments.prior.views import components, squash, uniform_quantiles

SHAPE = TaskShape(rows=160, columns=6, train_rows=120)
PLAIN = {
    "irrelevant_share": 0.0,
    "redundant_share": 0.0,
    "missing_share": 0.0,
    "transformed_share": 0.0,
    "mixed_family_share": 0.0,
    "warps": {"none": 1.0},
}
QUIET = {"low_noise_share": 1.0, "low_noise_sd": (0.01, 0.02), "odd_noise_share": 0.0}
LOUD = {"low_noise_share": 1.0, "low_noise_sd": (50.0, 60.0), "odd_noise_share": 0.0}


def draw(config: PriorConfig, seed: int = 0, shape: TaskShape = SHAPE) -> Task:
    return sample_task(np.random.default_rng(seed), shape, config)


def held_out_r2(model, task: Task, train_rows: int) -> float:
    x, y = task.x_RC.astype(np.float64), task.y_R.astype(np.float64)
    model.fit(x[:train_rows], y[:train_rows])
    error = model.predict(x[train_rows:]) - y[train_rows:]
    return 1.0 - float(np.mean(error**2) / np.var(y[train_rows:]))


def test_same_generator_state_gives_the_same_task_and_another_gives_another():
    config = PriorConfig()
    for seed in range(20):
        first, again, other = draw(config, seed), draw(config, seed), draw(config, seed + 100)
        assert np.array_equal(first.x_RC, again.x_RC, equal_nan=True)
        assert np.array_equal(first.y_R, again.y_R)
        assert first.family == again.family
        assert not np.array_equal(first.y_R, other.y_R)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("columns", [1, 2, 9])
def test_every_family_gives_well_formed_tasks(family: str, columns: int):
    config = PriorConfig(families={family: 1.0})
    shape = TaskShape(rows=60, columns=columns, train_rows=40)
    for seed in range(25):
        task = draw(config, seed, shape)
        assert task.family == family
        assert task.x_RC.shape == (60, columns)
        assert task.x_RC.dtype == task.y_R.dtype == np.float32
        assert not np.isinf(task.x_RC).any()
        assert np.isfinite(task.y_R).all()
        # float32 rounding of 40 values, and clipping of targets beyond 50 deviations.
        assert abs(task.y_R[:40].mean()) < 1e-3
        assert abs(task.y_R[:40].std() - 1.0) < 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_signal_can_be_learned_and_noise_cannot(family: str):
    shape = TaskShape(rows=400, columns=3, train_rows=300)
    scores = {}
    for name, noise in (("quiet", QUIET), ("loud", LOUD)):
        config = PriorConfig(families={family: 1.0}, **PLAIN, **noise)
        tasks = [draw(config, seed, shape) for seed in range(7)]
        forest = RandomForestRegressor(15, random_state=0)
        scores[name] = np.median([held_out_r2(forest, task, 300) for task in tasks])
    assert scores["quiet"] > 0.5
    assert scores["loud"] < 0.1


def test_linear_tasks_are_linear_and_interactions_are_not():
    shape = TaskShape(rows=400, columns=4, train_rows=300)
    medians = {}
    for family in ("linear", "interactions"):
        config = PriorConfig(families={family: 1.0}, marginals={"normal": 1.0}, **PLAIN, **QUIET)
        tasks = [draw(config, seed, shape) for seed in range(11)]
        medians[family] = np.median([held_out_r2(RidgeCV(), task, 300) for task in tasks])
    # Noise of 0.02 leaves 0.9996 of the variance to a linear fit.
    assert medians["linear"] > 0.995
    assert medians["interactions"] < 0.97


@pytest.mark.parametrize("marginal", MARGINALS)
def test_marginals_are_those_asked_for(marginal: str):
    config = PriorConfig(families={"linear": 1.0}, marginals={marginal: 1.0}, **PLAIN)
    columns = np.concatenate([draw(config, seed).x_RC.T for seed in range(5)])
    whole = [bool(np.array_equal(column, np.round(column))) for column in columns]
    levels = [len(np.unique(column)) for column in columns]
    if marginal in ("integer", "binary", "categorical"):
        assert all(whole)
    else:
        assert not any(whole)
    if marginal == "binary":
        assert set(levels) == {2}
    if marginal == "categorical":
        assert max(levels) <= 12
        assert columns.min() == 0
    if marginal == "zero_inflated":
        assert all(np.mean(column == column.min()) > 0.02 for column in columns)


@pytest.mark.parametrize("warp", WARPS)
def test_every_warp_leaves_a_usable_target(warp: str):
    config = PriorConfig(**{**PLAIN, "warps": {warp: 1.0}})
    levels = [len(np.unique(draw(config, seed).y_R)) for seed in range(10)]
    if warp == "rounded":
        assert max(levels) < 120
    elif warp == "censored":
        assert 40 < min(levels) < 160
    else:
        assert min(levels) > 150


def test_missing_cells_appear_only_when_asked_for():
    with_gaps = PriorConfig(**{**PLAIN, "missing_share": 1.0})
    without = PriorConfig(**PLAIN)
    assert any(np.isnan(draw(with_gaps, seed).x_RC).any() for seed in range(3))
    assert not any(np.isnan(draw(without, seed).x_RC).any() for seed in range(10))


def test_uniform_quantiles_match_scikit_learn():
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.lognormal(size=300), rng.integers(0, 5, 300), rng.normal(size=300)])
    x[rng.random(x.shape) < 0.05] = np.nan
    reference = QuantileTransformer(n_quantiles=20, subsample=None).fit(x[:200]).transform(x)
    ours = uniform_quantiles(x, 200)
    assert np.array_equal(np.isnan(ours), np.isnan(reference))
    # scikit-learn sends a run of ties at either end to 0 or 1, we send it to the run's middle.
    inside = (x > np.nanmin(x[:200], axis=0)) & (x < np.nanmax(x[:200], axis=0))
    assert inside.sum() > 700
    # Both interpolate between the same knots in float64.
    assert np.abs(ours - reference)[inside].max() < 1e-9
    assert np.abs(ours - x)[inside].max() > 0.5


def test_components_match_scikit_learn_up_to_sign():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(120, 5)) @ rng.normal(size=(5, 5))
    scaler = StandardScaler().fit(x[:90])
    reference = PCA(2).fit(scaler.transform(x[:90])).transform(scaler.transform(x))
    ours = components(x, 90, 2)
    assert np.abs(np.abs(ours) - np.abs(reference)).max() < 1e-8


@pytest.mark.parametrize("view", [uniform_quantiles, squash, lambda x, n: components(x, n, 3)])
def test_views_take_statistics_from_train_rows_alone(view):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(80, 4))
    shifted = x.copy()
    shifted[60:] = 100.0 * shifted[60:] + 7.0
    assert np.array_equal(view(x, 60)[:60], view(shifted, 60)[:60])
    moved = x.copy()
    moved[:60] = 3.0 * moved[:60] ** 3
    assert not np.allclose(view(x, 60)[60:], view(moved, 60)[60:])


def test_squash_keeps_order_and_bounds_outliers():
    x = np.linspace(-1e4, 1e4, 101)[:, None]
    squashed = squash(x, 101)
    assert (np.diff(squashed[:, 0]) > 0).all()
    outlier = squash(np.vstack([x / 1e4, [[1e9]]]), 101)[-1, 0]
    assert 2.9 < outlier <= 3.0


@pytest.mark.parametrize(
    "fields",
    [
        {"families": {"linear": 1.0, "lineer": 1.0}},
        {"marginals": {"normal": -1.0}},
        {"warps": {"none": 0.0}},
        {"noise_sd": (0.5, 0.1)},
        {"missing_share": 1.5},
        {"noise": 1.0},
    ],
)
def test_impossible_priors_are_refused(fields: dict):
    with pytest.raises(ValidationError, match=next(iter(fields))):
        PriorConfig(**fields)


@pytest.mark.parametrize("sizes", [(10, 3, 10), (10, 3, 1), (10, 0, 5)])
def test_impossible_shapes_are_refused(sizes: tuple[int, int, int]):
    with pytest.raises(PriorError, match="train_rows"):
        TaskShape(*sizes)
