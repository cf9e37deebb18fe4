"""The two-block study: what each host does to a zero token, and what a run writes."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import experiments.cli.commands  # noqa: F401  (registers the commands)
from experiments.cli.app import app
from experiments.errors import ConfigError, MissingExtraError, ResultsError
from experiments.studies.ablation import report as ablation_report
from experiments.studies.ablation.ablation import (
    HOSTS,
    AblationConfig,
    SharedWeights,
    after_last_block,
    run_ablation,
    summarise,
)
from experiments.studies.ablation.hosts import draw_model, make_host

CONFIG = AblationConfig(seeds=3, widths=(64,))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    return run_ablation(CONFIG)


@pytest.fixture(scope="module")
def last(figures) -> pd.DataFrame:
    frame = after_last_block(summarise(figures))
    keys = ["layers", "norm_placement", "depth", "dtype", "host"]
    return frame.set_index(keys).sort_index()


def test_every_cell_of_the_grid_is_there_once(figures):
    keys = ["layers", "norm_placement", "width", "depth", "dtype", "host", "seed", "block"]
    assert not figures.duplicated(keys).any()
    assert len(figures) == 2 * 2 * (2 + 8) * 2 * len(HOSTS) * 3
    assert figures.notna().all().all()


def test_two_blocks_of_oattention_alone_move_old_tokens_and_closed_ones_do_not(last):
    """The paper's ablation: about 7.98 with OAttention alone, about 0 with all components."""
    two = last.loc["biased", "pre", 2]
    assert 1 <= two.loc[("float64", "OA-only"), "old_shift_max"] <= 10
    assert two.loc[("float64", "standard"), "old_shift_max"] > 0.1
    assert two.loc[("float64", "OTransformer"), "old_shift_max"] <= 1e-12
    assert two.loc[("float32", "OTransformer"), "old_shift_max"] <= 5e-6


def test_closed_hosts_stay_closed_at_every_depth_and_placement(figures):
    closed = figures[figures["host"] == "OTransformer"]
    assert (closed["null_size"] == 0).all()
    assert closed[closed["dtype"] == "float64"]["old_shift"].max() <= 1e-12
    assert closed[closed["dtype"] == "float32"]["old_shift"].max() <= 5e-6


def test_oattention_alone_holds_until_the_first_ffn_has_woken_the_token(figures):
    rows = figures[
        (figures["host"] == "OA-only")
        & (figures["layers"] == "biased")
        & (figures["dtype"] == "float64")
    ]
    assert rows[rows["block"] == 1]["old_shift"].max() <= 1e-12
    assert rows[rows["block"] == 1]["null_size"].min() > 0.1
    assert rows[rows["block"] == 2]["old_shift"].max() > 0.1


@pytest.mark.parametrize(
    ("layers", "placement", "matters"),
    [
        ("biased", "pre", {"p_j": True, "p_i": True, "OFFN": True, "ONorm": False}),
        ("biased", "post", {"p_j": True, "p_i": True, "OFFN": True, "ONorm": True}),
        ("bias-free", "pre", {"p_j": True, "p_i": True, "OFFN": False, "ONorm": False}),
        ("bias-free", "post", {"p_j": True, "p_i": True, "OFFN": False, "ONorm": False}),
    ],
)
def test_leave_one_out_says_which_gates_matter(last, layers, placement, matters):
    for part, does in matters.items():
        (host,) = (host.name for host in HOSTS if host.name.startswith(f"without {part}"))
        shift = last.loc[(layers, placement, 2, "float64", host), "old_shift_median"]
        assert (shift > 1e-3) if does else (shift <= 1e-12), host


def test_hosts_of_a_setting_share_their_weights():
    setting = SharedWeights("biased", "post", 64, 2, 5)
    full = draw_model(setting, CONFIG)
    again = draw_model(setting, CONFIG)
    other = draw_model(SharedWeights("biased", "post", 64, 2, 6), CONFIG)
    for host in HOSTS:
        state = make_host(full, host).state_dict()
        assert state.keys() == full.state_dict().keys()
        assert all(torch.equal(state[name], value) for name, value in again.state_dict().items())
    assert not torch.equal(full.blocks[0].ffn.ffn[0].weight, other.blocks[0].ffn.ffn[0].weight)


def test_standard_host_is_an_ordinary_transformer():
    """Written out with torch's own attention; the zero token takes part like any other."""
    setting = SharedWeights("biased", "pre", 64, 1, 0)
    standard, closed = (make_host(draw_model(setting, CONFIG), HOSTS[i]) for i in (0, 2))
    block = standard.blocks[0]
    h_BSE = torch.randn(1, 7, 64, dtype=torch.float64)
    h_BSE[:, 3] = 0
    with torch.no_grad():
        x_BSE = block.attention_norm.norm(h_BSE)
        q, k, v = (
            getattr(block.attention, f"{name}_projection")(x_BSE)
            .unflatten(2, (4, 16))
            .transpose(1, 2)
            for name in "qkv"
        )
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        want = h_BSE + block.attention.out_projection(heads.transpose(1, 2).flatten(2))
        want = want + block.ffn.ffn(block.ffn.norm(want))
        assert torch.allclose(block(h_BSE), want, atol=1e-12)
        assert not torch.allclose(closed.blocks[0](h_BSE), want, atol=1e-2)


def test_a_run_writes_its_tables_and_repeats_them(tmp_path, figures):
    written = ablation_report.write_ablation(figures, CONFIG, tmp_path / "a", ["oretro", "ablate"])
    assert {path.name for path in written} == {
        "ablation.csv",
        "ablation_seeds.csv",
        "ablation.md",
        "ablation.json",
        "ablation.svg",
        "ablation.png",
    }
    table = pd.read_csv(tmp_path / "a" / "ablation.csv")
    assert len(table) == len(summarise(figures))
    record = json.loads((tmp_path / "a" / "ablation.json").read_text())
    assert record["config"]["seeds"] == 3
    ablation_report.write_ablation(run_ablation(CONFIG), CONFIG, tmp_path / "b", [])
    for name in ("ablation.csv", "ablation_seeds.csv", "ablation.md", "ablation.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_figure_without_matplotlib_says_what_to_install(tmp_path, figures, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="plots"):
        ablation_report.write_ablation(figures, CONFIG, tmp_path, [])
    assert list(tmp_path.iterdir()) == []
    ablation_report.write_ablation(figures, CONFIG, tmp_path, [], with_figure=False)
    assert (tmp_path / "ablation.md").is_file()


def test_a_folder_that_cannot_be_written_is_named(tmp_path, figures):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="file"):
        ablation_report.write_ablation(
            figures, CONFIG, tmp_path / "file" / "out", [], with_figure=False
        )


def test_command_prints_and_writes(tmp_path):
    arguments = ["ablate", "--seeds", "1", "--width", "8", "--depth", "2", "--json", "--no-figure"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--quiet"])
    assert done.exit_code == 0, done.output
    records = json.loads(done.stdout[: done.stdout.rindex("]") + 1])
    assert {record["host"] for record in records} == {host.name for host in HOSTS}
    assert (tmp_path / "ablation.csv").is_file()


def test_command_refuses_a_width_that_heads_do_not_divide():
    done = CliRunner().invoke(app, ["ablate", "--width", "30"])
    assert isinstance(done.exception, ConfigError)
