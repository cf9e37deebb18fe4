"""Many tables in few passes give what one estimator per table gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

import retrofit
from retrofit import CalibrationTable, Host, Patched
from retrofit.closed.buckets import plan_buckets
from retrofit.closed.padded_passes import ModelCall, run_calls
from retrofit.errors import NonFiniteOutputError, PresenceError, TableError, UnsupportedModeError
from retrofit.hosts.clone import alias
from retrofit.hosts.cost import Cost, Size

SETTINGS = {"n_estimators": 2, "random_state": 0, "device": "cpu"}
# Of the target's standard deviation; float32 sums of other lengths.
TOLERANCE = 1e-5

Task = tuple[np.ndarray, np.ndarray, np.ndarray]


def draw_tasks(count: int, seed: int = 0) -> list[Task]:
    """Tables of 20 to 120 rows and 3 to 12 columns, a quarter of the rows to be predicted."""
    rng = np.random.default_rng(seed)
    tasks = []
    for _ in range(count):
        rows, columns = rng.integers(20, 121), rng.integers(3, 13)
        X = rng.normal(size=(rows, columns))
        X[:, 1] = rng.integers(0, 4, size=rows)
        y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=rows)
        train = rows - rows // 4
        tasks.append((X[:train], y[:train], X[train:]))
    return tasks


def one_by_one(host: Patched, tasks: list[Task], **asked: object) -> list[object]:
    return [host.regressor(**SETTINGS).fit(X, y).predict(X_test, **asked) for X, y, X_test in tasks]


def deviation(many: list[np.ndarray], ones: list[np.ndarray], tasks: list[Task]) -> float:
    return max(
        float(np.abs(a - b).max() / task[1].std())
        for a, b, task in zip(many, ones, tasks, strict=True)
    )


@pytest.mark.parametrize("count", [12, pytest.param(64, marks=pytest.mark.slow)])
def test_equal_to_one_by_one(count: int, mini_closed: Patched) -> None:
    tasks = draw_tasks(count)
    many = retrofit.predict_tables(mini_closed, tasks, **SETTINGS)
    ones = one_by_one(mini_closed, tasks)
    assert deviation(many, ones, tasks) <= TOLERANCE


def test_undeclared_padding_would_be_read(
    mini_closed: Patched, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = draw_tasks(4)
    module = sys.modules["retrofit.closed.padded_passes"]
    monkeypatch.setattr(module, "calling", lambda _: nullcontext())
    price_by_rows = Cost(lambda size: float(size.rows), 1e9)
    monkeypatch.setattr(type(mini_closed.generation), "cost", lambda *_: price_by_rows)
    many = retrofit.predict_tables(mini_closed, tasks, **SETTINGS)
    assert deviation(many, one_by_one(mini_closed, tasks), tasks) > 1e-2


def test_tables_are_padded_and_not_mixed_up(closed: Patched) -> None:
    """One bucket for all: swapping two tables swaps their predictions."""
    tasks = draw_tasks(3, seed=1)
    many = retrofit.predict_tables(closed, tasks, **SETTINGS)
    swapped = retrofit.predict_tables(closed, tasks[::-1], **SETTINGS)
    assert deviation(many, one_by_one(closed, tasks), tasks) <= TOLERANCE
    assert deviation(many, swapped[::-1], tasks) <= TOLERANCE
    assert len({prediction.shape for prediction in many}) > 1


def test_other_outputs_frames_and_constant_targets(mini_closed: Patched) -> None:
    tasks = draw_tasks(3, seed=2)
    X, y, X_test = tasks[0]
    tasks[0] = (X, np.full(len(y), 2.0), X_test)
    frame, frame_test = (
        pd.DataFrame(part, columns=[f"c{i}" for i in range(part.shape[1])])
        for part in (tasks[1][0], tasks[1][2])
    )
    tasks[1] = (
        frame.assign(c1=frame["c1"].astype(str)),
        tasks[1][1],
        frame_test.assign(c1=frame_test["c1"].astype(str)),
    )
    asked = {"output_type": "quantiles", "quantiles": [0.1, 0.9]}
    many = retrofit.predict_tables(mini_closed, tasks, **asked, **SETTINGS)
    ones = one_by_one(mini_closed, tasks, **asked)
    assert np.array_equal(many[0], ones[0])
    for index in (1, 2):
        assert np.abs(np.array(many[index]) - np.array(ones[index])).max() <= 1e-4


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [
        (torch.float64, 1e-6),
        # 8 bits; sums over tables of other sizes round apart by a few of the last.
        (torch.bfloat16, 0.1),
        ("autocast", 0.1),
    ],
    ids=str,
)
def test_every_precision_is_that_of_one_by_one(
    precision: torch.dtype | str, tolerance: float, mini_closed: Patched
) -> None:
    tasks, settings = draw_tasks(4, seed=3), {**SETTINGS, "inference_precision": precision}
    many = retrofit.predict_tables(mini_closed, tasks, **settings)
    ones = [mini_closed.regressor(**settings).fit(X, y).predict(Z) for X, y, Z in tasks]
    assert deviation(many, ones, tasks) <= tolerance
    assert deviation(many, one_by_one(mini_closed, tasks), tasks) > 0
    assert next(mini_closed.model.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y, Z: (X, y * np.nan, Z), "Input y contains NaN"),
        (lambda X, y, Z: (X, y[:-1], Z), "inconsistent numbers of samples"),
        (lambda X, y, Z: (X, y, Z[:, :2]), "X has 2 features"),
        (lambda X, y, Z: (X, y, Z[:0]), r"0 sample\(s\)"),
        (lambda X, y, Z: (X * 0, y, Z), "constant"),
        (lambda X, y, Z: (X, y), "unpack"),
    ],
    ids=["target", "rows", "columns", "no test row", "constant columns", "no triple"],
)
def test_an_error_names_its_table(
    spoil: Callable[..., object], message: str, tiny_closed: Patched
) -> None:
    tasks = draw_tasks(3)
    with pytest.raises(TableError, match=message) as caught:
        retrofit.predict_tables(tiny_closed, [*tasks[:2], spoil(*tasks[2])], **SETTINGS)
    assert caught.value.index == 2
    assert str(caught.value).startswith("tables[2]: ")
    assert type(caught.value.__cause__).__name__ in str(caught.value)


def test_an_error_of_all_tables_comes_before_any_pass(
    tiny_closed: Patched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["retrofit.closed.predict_tables"], "run_calls")
    with pytest.raises(TableError, match="Invalid output type"):
        retrofit.predict_tables(tiny_closed, draw_tasks(2), output_type="sum", **SETTINGS)
    with (
        retrofit.declaring(retrofit.Presence(columns=[True])),
        pytest.raises(PresenceError, match="tell the estimator"),
    ):
        retrofit.predict_tables(tiny_closed, draw_tasks(2), **SETTINGS)


def test_infinite_logits_are_laid_to_the_table_that_has_them(
    tiny_host: Host, calibration: list[CalibrationTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights so large that a row with nothing but missing cells overflows, and no other."""
    closed = retrofit.patch(tiny_host, "closed", tau=1.0, tables=calibration)
    weight = closed.model.x_embed.weight.clone()
    weight[:, -3:] = 3e38
    closed.model.x_embed.weight = torch.nn.Parameter(weight, requires_grad=False)
    price_by_rows = Cost(lambda size: float(size.rows), 1e9)
    monkeypatch.setattr(type(closed.generation), "cost", lambda *_: price_by_rows)
    tasks = draw_tasks(4)
    retrofit.predict_tables(closed, tasks, **SETTINGS)
    tasks[1][2][3] = np.nan
    with pytest.raises(NonFiniteOutputError, match=r"^tables\[1\]: .* for 1 of"):
        retrofit.predict_tables(closed, tasks, **SETTINGS)


def test_a_pass_saves_memory_if_one_of_its_tables_must(tiny_closed: Patched) -> None:
    options = tiny_closed.model.get_default_performance_options()
    sizes = []
    model = alias(tiny_closed.model)
    layer = model.icl_blocks[0].mlp
    layer.register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))

    def rows_at_a_time(*factors: int | None) -> list[int]:
        sizes.clear()
        generator = torch.Generator().manual_seed(0)
        calls = [
            ModelCall(
                torch.randn(20, 3, generator=generator),
                torch.randn(15, generator=generator),
                {"performance_options": replace(options, save_peak_memory_factor=factor)},
            )
            for factor in factors
        ]
        run_calls(model, calls)
        return list(sizes)

    assert rows_at_a_time(None, 8, None) == rows_at_a_time(8, 8, 8)
    assert rows_at_a_time(None, None, None) != rows_at_a_time(8, 8, 8)


@pytest.mark.parametrize("members", [1, 8])
def test_columns_constant_but_for_gaps(members: int, mini_closed: Patched) -> None:
    """Stock divides them by what rounding left of their deviation: every bit of it counts."""
    rng = np.random.default_rng(0)
    tasks, settings = draw_tasks(10, seed=4), {**SETTINGS, "n_estimators": members}
    for X, _, X_test in tasks:
        X[:, 2] = np.where(rng.random(len(X)) < 0.4, np.nan, rng.normal())
        X_test[:, 2] = rng.normal(size=len(X_test))
    many = retrofit.predict_tables(mini_closed, tasks, **settings)
    ones = [mini_closed.regressor(**settings).fit(X, y).predict(Z) for X, y, Z in tasks]
    assert deviation(many, ones, tasks) <= TOLERANCE


def test_no_table_at_all(tiny_closed: Patched) -> None:
    assert retrofit.predict_tables(tiny_closed, [], **SETTINGS) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fit_mode": "fit_with_cache"}, "fit_mode"),
        ({"fit_mode": "low_memory"}, "fit_mode"),
        ({"device": ["cpu", "cpu:0"]}, "one device"),
    ],
)
def test_what_one_pass_cannot_do_is_refused(
    settings: dict[str, object], message: str, tiny_closed: Patched
) -> None:
    with pytest.raises(UnsupportedModeError, match=message):
        retrofit.predict_tables(tiny_closed, draw_tasks(2), **(SETTINGS | settings))


def test_a_host_that_would_read_the_padding_is_refused(
    tiny_host: Host, calibration: list[CalibrationTable]
) -> None:
    full = retrofit.patch(tiny_host, "full", tau=1.0, tables=calibration)
    with pytest.raises(UnsupportedModeError, match="would read the padding"):
        retrofit.predict_tables(full, draw_tasks(2), **SETTINGS)


AREA = Cost(lambda size: float(size.rows * size.columns), per_pass=300.0, padded=1.2)


def total(plan: list[tuple[Size, list[int]]], sizes: list[Size], cost: Cost) -> float:
    return sum(
        price(len(indices), len({*(sizes[i] for i in indices)}), size, cost)
        for size, indices in plan
    )


def price(tables: int, distinct: int, largest: Size, cost: Cost) -> float:
    factor = cost.padded if distinct > 1 else 1.0
    return cost.per_pass + factor * tables * cost.per_table(largest)


def cheapest_cut(sizes: list[Size], cost: Cost) -> float:
    """Every cut of the sizes in order of their rows."""
    ordered = sorted(sizes, key=lambda size: (size.rows, size.columns))
    best = float("inf")
    for cuts in range(len(ordered)):
        for places in combinations(range(1, len(ordered)), cuts):
            sum_of_parts = 0.0
            for start, end in zip((0, *places), (*places, len(ordered)), strict=True):
                part = ordered[start:end]
                largest = Size(*(max(getattr(s, axis) for s in part) for axis in vars(part[0])))
                sum_of_parts += price(len(part), len(set(part)), largest, cost)
            best = min(best, sum_of_parts)
    return best


@pytest.mark.parametrize("seed", range(8))
def test_no_cut_by_rows_is_cheaper_than_the_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [Size(*(int(n) for n in rng.integers((5, 1, 2), (40, 10, 12)))) for _ in range(9)]
    plan = plan_buckets(sizes, AREA)
    assert sorted(index for _, indices in plan for index in indices) == list(range(9))
    for size, indices in plan:
        assert all(sizes[index] | size == size for index in indices)
    assert total(plan, sizes, AREA) <= cheapest_cut(sizes, AREA) + 1e-9


def test_cheap_passes_make_many_buckets_and_dear_ones_one(tiny_closed: Patched) -> None:
    sizes = [Size(10 * n, n, n) for n in range(1, 7)]
    assert len(plan_buckets(sizes, Cost(AREA.per_table, 0.0))) == 6
    assert len(plan_buckets(sizes, Cost(AREA.per_table, 1e9))) == 1
    assert plan_buckets([], AREA) == []
    cost = tiny_closed.generation.cost(tiny_closed.model.config, "cpu")
    assert cost.per_table(Size(100, 10, 8)) > cost.per_table(Size(50, 10, 8))
