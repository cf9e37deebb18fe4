"""The benchmark times what it should, and refuses to time a wrong answer."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import retrofit
from experiments.errors import BenchmarkError, ConfigError, ResultsError
from experiments.studies.bench import forward as bench_module
from experiments.studies.bench import memory
from experiments.studies.bench.drawn import drawn_host
from experiments.studies.bench.forward import BenchShape, bench
from experiments.studies.bench.write import compared, write_bench

TINY_SHAPE = BenchShape(train=20, test=5, columns=3, members=2)


@pytest.fixture(scope="module")
def rows(mini_host):
    return bench(mini_host, ["oa", "full"], shapes=[TINY_SHAPE], rounds=3)


def test_one_row_per_shape_and_variant(mini_host, rows) -> None:
    frame = pd.DataFrame(rows)
    assert list(frame["variant"]) == ["oa", "full"]
    assert (frame["stock_s"] > 0).all()
    assert (frame["ratio_low"] <= frame["ratio"]).all()
    assert (frame["ratio"] <= frame["ratio_high"]).all()
    calls = sum(int(part.split()[0]) for part in rows[0].kernels.split(", "))
    assert calls == retrofit.plan(mini_host, "oa").counts["attention"]


def test_what_is_written_says_how_it_was_made(rows, tmp_path: Path) -> None:
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


def test_a_shape_is_what_its_text_says() -> None:
    assert BenchShape.parse("400+100x10x8") == BenchShape(400, 100, 10, 8)
    assert BenchShape.parse("16000+4000x8") == BenchShape(16000, 4000, 8, 1)
    for text in ("400x10", "400+0x3", "1+1x1x1x1", ""):
        with pytest.raises(ConfigError, match=r"TRAIN\+TESTxCOLUMNS"):
            BenchShape.parse(text)


def test_an_earlier_run_stands_beside_this_one(rows, tmp_path: Path) -> None:
    write_bench(tmp_path, "mini", rows, [], built_in=True)
    earlier = tmp_path / "bench.csv"
    frame = pd.read_csv(earlier)
    frame.assign(ratio=2 * frame.ratio).to_csv(earlier, index=False)
    assert [found["gain"] for found in compared(rows, earlier)] == pytest.approx([0.5, 0.5])
    frame.assign(threads=99).to_csv(earlier, index=False)
    with pytest.raises(ResultsError, match="in common"):
        compared(rows, earlier)
    with pytest.raises(ResultsError, match=r"no bench\.csv"):
        compared(rows, tmp_path / "none.csv")


def test_memory_is_that_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = BenchShape(1500, 10, 6, 1)
    (found,) = memory.measure("mini", False, ["oa"], [shape], 1)
    cells = 1510 * 6 * 64 * 4 / 2**20  # one stream of float32 carriers, of which a pass holds some
    assert cells < found.stock_added_mib < 100 * cells
    assert 0.8 < found.ratio < 1.25
    monkeypatch.setattr(memory, "_RESET", Path("nowhere"))
    with pytest.raises(BenchmarkError, match="Linux only"):
        memory.measure("mini", False, ["oa"], [shape], 1)


def test_a_drawn_host_is_of_the_released_size_and_no_block_is_an_identity() -> None:
    host = drawn_host("v2")
    assert sum(parameter.numel() for parameter in host.model.parameters()) > 5e6
    assert all(parameter.any() for parameter in host.model.parameters())
    with pytest.raises(ConfigError, match=r"v2, v2\.5, v2\.6, v3, v3\.5"):
        drawn_host("v9")
