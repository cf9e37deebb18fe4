"""The audit finds the leaks of hosts whose leaks are known, and none in `closed`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments.cli import commands as _commands
from experiments.cli.app import app
from experiments.errors import ConfigError
from experiments.studies.audit.audit import TOLERANCE, Audit, audit
from experiments.studies.audit.leaks import closed_leak, leaks
from experiments.studies.audit.page import page
from retrofit import Host

ROWS, COLUMNS = "train, end", "columns, end"
NEEDED_FOR_ROWS = {
    "presence of sources",
    "presence of receivers",
    "number of present sources",
    "gated cells",
    "gated column targets",
    "gated row targets",
    "statistics of present rows",
    "target mean of present rows",
    "gated CLS tokens",
}
CHANGES = {
    "none",
    *NEEDED_FOR_ROWS,
    "OFFN gate",
    "ONorm gate",
    "OFFN and ONorm gates",
    "positions by rank",
    "groups of present columns",
    "gated inducing vectors",
}
NEEDED_FOR_COLUMNS = {
    "presence of sources",
    "presence of receivers",
    "gated cells",
    "gated column targets",
    "groups of present columns",
}


@pytest.fixture(scope="module")
def found(tiny_host: Host) -> Audit:
    return audit(tiny_host)


def first_leak(stages: pd.DataFrame, variant: str, insertion: str, entry: str) -> str | None:
    chosen = stages[
        (stages["variant"] == variant)
        & (stages["insertion"] == insertion)
        & (stages["entry"] == entry)
    ]
    assert not chosen.empty
    open_ = chosen[leaks(chosen, TOLERANCE)].sort_values("order")
    return None if open_.empty else str(open_.iloc[0]["stage"])


def last(stages: pd.DataFrame, variant: str, insertion: str, entry: str) -> float:
    rows = stages[
        (stages["variant"] == variant)
        & (stages["insertion"] == insertion)
        & (stages["entry"] == entry)
        & (stages["stage"] == "logits")
    ]
    return float(rows["relative_shift"].iloc[0])


@pytest.mark.parametrize("variant", ["stock", "oa", "full"])
@pytest.mark.parametrize("fill", ["raw zero", "raw missing"])
def test_undeclared_nulls_act_from_the_first_cell_on(fill: str, variant: str, found: Audit) -> None:
    for insertion in (ROWS, COLUMNS, "columns, middle", "all, mixed"):
        assert first_leak(found.stages, variant, insertion, fill) == "cells"
        assert last(found.stages, variant, insertion, fill) > 1e-3
    assert last(found.stages, variant, "test, end", fill) < 1e-12


def test_zero_carriers_leak_where_each_variant_is_open(found: Audit) -> None:
    """Stock in its attention; `oa` and `full` in counts, positions and scaffolds only."""
    stages = found.stages
    induce = "feature_distribution_embedder.layers.0.cross_attn_block1"
    read = "feature_distribution_embedder.layers.0.cross_attn_block2"
    aggregator = "column_aggregator.blocks.0"
    assert first_leak(stages, "stock", COLUMNS, "carrier") == read
    assert first_leak(stages, "stock", COLUMNS, "own") == aggregator
    for variant in ("oa", "full"):
        assert first_leak(stages, variant, COLUMNS, "carrier") is None
        assert first_leak(stages, variant, "columns, middle", "carrier") == aggregator
        assert first_leak(stages, variant, ROWS, "carrier") == induce
        assert first_leak(stages, variant, "test, end", "carrier") == "column_aggregator.cls_tokens"


def test_nothing_leaks_in_closed(found: Audit) -> None:
    assert closed_leak(found.stages, TOLERANCE) == ""
    closed = found.stages[found.stages["variant"] == "closed"]
    assert closed["relative_shift"].max() < 1e-12
    assert set(closed["entry"]) == {"raw garbage", "carrier", "own"}
    assert found.exactness.groupby("dtype")["logits"].max()["float64"] < 1e-12
    assert found.exactness.groupby("dtype")["logits"].max()["float32"] < 1e-5
    worse = closed.assign(null=closed["null"].where(closed["stage"] != "output_norm", 1.0))
    assert "at output_norm" in closed_leak(worse, TOLERANCE)


def test_verdicts_of_sites(found: Audit, tiny_host: Host) -> None:
    every_site = [
        site.name for site in tiny_host.generation.site_map(tiny_host.architecture_config)
    ]
    absorbing = {"stock": {"ffn", "norm"}, "oa": {"attention", "ffn", "norm"}}
    absorbing["full"] = absorbing["oa"]
    absorbing["closed"] = {"attention", "ffn", "norm", "injection", "statistic"}
    for variant, group in found.sites.groupby("variant"):
        assert list(group["site"]) == every_site
        for kind, verdicts in group.groupby("kind")["verdict"]:
            absorbs = verdicts == "absorbs"
            assert absorbs.all() if kind in absorbing[str(variant)] else not absorbs.any(), kind
    stock = found.sites[found.sites["variant"] == "stock"].set_index("site")["verdict"]
    assert stock["icl_blocks.0.icl_attention"] == "revives and dilutes"
    assert stock["feature_distribution_embedder.layers.0.cross_attn_block2.attn"] == "revives"
    assert stock["column_aggregator.rope"] == "dilutes"
    assert stock["output_projection"] == "revives"


def test_which_changes_exactness_needs(found: Audit) -> None:
    changes = found.changes
    assert set(changes["change"]) == CHANGES
    for insertion, needed in ((ROWS, NEEDED_FOR_ROWS), (COLUMNS, NEEDED_FOR_COLUMNS)):
        shifts = changes[changes["insertion"] == insertion].set_index("change")["relative_shift"]
        assert set(shifts.index[shifts > TOLERANCE]) == needed
        assert shifts[list(needed)].min() > 1e-6
    middle = changes[changes["insertion"] == "columns, middle"].set_index("change")
    assert middle.loc["positions by rank", "relative_shift"] > 1e-4
    awake = changes.groupby("change")["null"].max()
    assert awake["none"] == 0
    assert awake["gated inducing vectors"] > 1e-3


def test_what_the_gates_of_ffn_and_norm_are_for(found: Audit) -> None:
    """Not for exact zeros, but for carriers that are nearly zero."""
    smallest = found.continuity["carrier"].min()
    shifts = found.continuity[found.continuity["carrier"] == smallest]
    shifts = shifts.set_index("change")["relative_shift"]
    assert shifts["OFFN and ONorm gates"] > 10 * shifts["none"]
    assert shifts["presence of receivers"] > 10 * shifts["none"]


def test_the_page_says_what_was_found(found: Audit) -> None:
    about = {"built_in": True, "command": "oretro audit mini", "tolerance": TOLERANCE}
    text = page("mini", found.tables(), **about, figure="audit.svg")
    assert "not Prior Labs'" in text
    assert "`oretro audit mini`" in text
    for change in CHANGES:
        assert f"| {change} |" in text
    assert "| OFFN and ONorm gates |" in text.split("## What each change is for")[1]
    assert "continuity |" in text
    assert "(audit.svg)" in text


def test_an_unknown_variant_is_refused(tiny_host: Host) -> None:
    with pytest.raises(ConfigError, match="no variant open; there are stock, oa, full, closed"):
        audit(tiny_host, ["open"])


def test_the_command_writes_its_files(tmp_path: Path) -> None:
    assert _commands.app is app
    out = tmp_path / "deep" / "audit"
    result = CliRunner().invoke(app, ["audit", "mini", "--variant", "oa", "--out", str(out), "-q"])
    assert result.exit_code == 0, result.output
    names = {"stages.csv", "sites.csv", "audit.md", "audit.svg", "audit.png", "audit.json"}
    assert {path.name for path in out.iterdir()} == names
    stages = pd.read_csv(out / "stages.csv")
    assert set(stages["variant"]) == {"oa"}
    assert set(stages["entry"]) == {"raw zero", "raw missing", "carrier", "own"}
    record = json.loads((out / "audit.json").read_text())
    assert record["host"]["name"] == "mini"
    assert record["host"]["built_in"] is True


def test_an_output_that_is_a_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = CliRunner().invoke(app, ["audit", "mini", "--out", str(blocked)])
    assert result.exit_code != 0
    assert "cannot be written" in str(result.exception)
