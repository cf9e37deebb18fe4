"""The benchmark times what it should, and refuses to time a wrong answer."""

from __future__ import annotations

import pytest

import retrofit
from experiments import bench as bench_module
from experiments.bench import BenchShape, bench, table
from experiments.errors import BenchmarkError

TINY_SHAPE = BenchShape(train=20, test=5, columns=3, members=2)


def test_one_row_per_shape_and_variant(mini_host) -> None:
    rows = bench(mini_host, ["oa", "full"], shapes=[TINY_SHAPE], rounds=3)
    frame = table(rows)
    assert list(frame["variant"]) == ["oa", "full"]
    assert (frame["stock_s"] > 0).all()
    assert (frame["ratio_low"] <= frame["ratio"]).all()
    assert (frame["ratio"] <= frame["ratio_high"]).all()
    calls = sum(int(part.split()[0]) for part in rows[0].kernels.split(", "))
    assert calls == retrofit.plan(mini_host, "oa").counts["attention"]


def test_a_wrong_answer_is_not_timed(mini_host, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = retrofit.patch

    def wrong_where_it_should_equal_stock(host, variant, **settings):
        # Presence is not forced to 1 where it was asked for.
        return patch(host, variant, tau=1.0)

    monkeypatch.setattr(retrofit, "patch", wrong_where_it_should_equal_stock)

    def time_it(*_: object) -> None:
        raise AssertionError("a wrong answer was timed")

    monkeypatch.setattr(bench_module, "_interleaved", time_it)
    with pytest.raises(BenchmarkError, match="oa with presence 1 deviates from stock"):
        bench(mini_host, ["oa"], shapes=[TINY_SHAPE], rounds=3)
