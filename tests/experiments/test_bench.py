"""The benchmark times what it should, and refuses to time a wrong answer."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import retrofit
from experiments.errors import BenchmarkError, ResultsError
from experiments.studies.bench import forward as bench_module
from experiments.studies.bench.forward import BenchShape, bench, write_bench

TINY_SHAPE = BenchShape(train=20, test=5, columns=3, members=2)


def test_one_row_per_shape_and_variant(mini_host) -> None:
    rows = bench(mini_host, ["oa", "full"], shapes=[TINY_SHAPE], rounds=3)
    frame = pd.DataFrame(rows)
    assert list(frame["variant"]) == ["oa", "full"]
    assert (frame["stock_s"] > 0).all()
    assert (frame["ratio_low"] <= frame["ratio"]).all()
    assert (frame["ratio"] <= frame["ratio_high"]).all()
    calls = sum(int(part.split()[0]) for part in rows[0].kernels.split(", "))
    assert calls == retrofit.plan(mini_host, "oa").counts["attention"]


def test_what_is_written_says_how_it_was_made(mini_host, tmp_path: Path) -> None:
    rows = bench(mini_host, ["oa"], shapes=[TINY_SHAPE], rounds=3)
    written = write_bench(tmp_path, "mini", rows, ["oretro", "bench"], built_in=True)
    assert {path.name for path in written} == {"bench.csv", "bench.md", "bench.json"}
    page = (tmp_path / "bench.md").read_text()
    assert "Made by `oretro bench`" in page
    assert "not Prior Labs' TabPFN v3" in page
    assert f"{rows[0].ratio:.2f}" in page
    record = json.loads((tmp_path / "bench.json").read_text())
    assert record["command"] == ["oretro", "bench"]
    assert record["machine"]["torch_threads"] >= 1
    assert {"code", "versions", "finished", "device"} <= record.keys()
    gone = tmp_path / "file"
    gone.write_text("")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_bench(gone, "mini", rows, [], built_in=False)


def test_a_wrong_answer_is_not_timed(mini_host, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = retrofit.patch

    def wrong_where_it_should_equal_stock(host, variant, **settings):
        # Presence is not forced to 1 where it was asked for.
        return patch(host, variant, tau=1.0)

    monkeypatch.setattr(retrofit, "patch", wrong_where_it_should_equal_stock)

    def time_it(*_: object) -> None:
        raise AssertionError("a wrong answer was timed")

    monkeypatch.setattr(bench_module, "interleaved", time_it)
    with pytest.raises(BenchmarkError, match="oa with presence 1 deviates from stock"):
        bench(mini_host, ["oa"], shapes=[TINY_SHAPE], rounds=3)
