"""Files of v2, v2.5 and v2.6: early ones as tabpfn reads them, patched ones in plain tabpfn."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from tabpfn import TabPFNRegressor

import retrofit
from retrofit import CalibrationTable, Host, errors

if TYPE_CHECKING:
    from pathlib import Path

Table = tuple[np.ndarray, ...]
EARLY = {"tiny_v2": ("tabpfn-v2-regressor.ckpt", None), "tiny_v2_5": ("early-v2.5.ckpt", "base")}
SETTINGS = {"n_estimators": 2, "random_state": 0, "device": "cpu"}


def early_names(host: Host) -> dict[str, torch.Tensor]:
    """The tensors of a host under the names and in the shapes of the first releases."""
    state = host.model.state_dict()
    moved = {
        "feature_group_embedder.": "encoder.5.layer.",
        "target_embedder.": "y_encoder.1.layer.",
        "output_projection.": "decoder_dict.standard.",
        "add_thinking_rows.row_token_values_TE": "add_thinking_tokens.row_token_values",
    }
    early = dict(host.criterion_state)
    for name, tensor in state.items():
        if name.startswith("blocks."):
            continue
        start = next((start for start in moved if name.startswith(start)), "")
        early[name.replace(start, moved[start]) if start else name] = tensor
    for layer, block in enumerate(host.model.blocks):
        there = f"transformer_encoder.layers.{layer}"
        early[f"{there}.mlp.linear1.weight"] = block.mlp[0].weight
        early[f"{there}.mlp.linear2.weight"] = block.mlp[2].weight
        for name, attention in (
            ("features", block.per_sample_attention_between_features),
            ("items", block.per_column_attention_between_cells),
        ):
            heads = (attention.num_heads, attention.head_dim)
            parts = (attention.q_projection, attention.k_projection, attention.v_projection)
            qkv = torch.stack([part.weight.unflatten(0, heads) for part in parts])
            early[f"{there}.self_attn_between_{name}._w_qkv"] = qkv
            out = attention.out_projection.weight.T.unflatten(0, heads)
            early[f"{there}.self_attn_between_{name}._w_out"] = out
    return {name: tensor.detach().clone() for name, tensor in early.items()}


def save_early(host: Host, path: Path, name: str | None) -> None:
    content = {
        "state_dict": early_names(host),
        "config": dataclasses.asdict(host.architecture_config),
    }
    torch.save(content if name is None else {**content, "architecture_name": name}, path)


def predict(regressor: TabPFNRegressor, table: Table) -> np.ndarray:
    X, y, X_test = table
    return regressor.fit(X, y).predict(X_test)


@pytest.mark.parametrize("grid", EARLY)
def test_an_early_file_is_what_tabpfn_makes_of_it(
    grid: str, table: Table, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    host: Host = request.getfixturevalue(grid)
    file_name, name = EARLY[grid]
    path = tmp_path / file_name
    save_early(host, path, name)
    loaded, named = retrofit.load_host(path), retrofit.describe_host(path)
    assert loaded.generation is named.generation is host.generation
    plain = TabPFNRegressor(model_path=path, inference_precision=torch.float32, **SETTINGS)
    assert np.array_equal(predict(loaded.regressor(**SETTINGS), table), predict(plain, table))
    assert loaded.model.state_dict().keys() == host.model.state_dict().keys()

    calibration = [CalibrationTable("tiny", table[0][:, :3], table[1])]
    patched = retrofit.patch(loaded, "full", tables=calibration)
    notes = (loaded.note, named.note, patched.report.warnings[0], retrofit.plan(path, "oa").note)
    assert all("tabpfn supplies" in note and "preprocessing settings" in note for note in notes)
    assert ("the architecture" in loaded.note) == (name != "tabpfn_v2")
    again = retrofit.load_host(
        patched.save(tmp_path / f"patched-{grid.replace('_', '-')}.safetensors")
    )
    before, after = (predict(x.regressor(**SETTINGS), table) for x in (patched, again))
    assert np.array_equal(before, after)


@pytest.mark.parametrize("grid", ["tiny_v2_5", "tiny_v2_6"])
def test_a_file_without_a_name_is_refused_if_it_is_no_v2(
    grid: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """tabpfn would take it for v2."""
    host: Host = request.getfixturevalue(grid)
    content = {
        "state_dict": {**host.model.state_dict(), **host.criterion_state},
        "config": dataclasses.asdict(host.architecture_config),
    }
    path = tmp_path / "nameless-v2.ckpt"
    torch.save(content, path)
    with pytest.raises(errors.CheckpointError, match="names no architecture"):
        retrofit.load_host(path)
    torch.save({**content, "architecture_name": "tabpfn_v2_6"}, path)
    with pytest.raises(errors.CheckpointError, match="no 'inference_config'"):
        retrofit.load_host(path)


SCRIPT = """
import json, sys
import numpy as np
if sys.argv[1] == "with": import retrofit
import torch
from tabpfn import TabPFNRegressor

files, X, y, X_test = json.loads(sys.argv[2])
for path in files:
    predictions = []
    for precision in ("auto", torch.float32):
        regressor = TabPFNRegressor(
            model_path=path, n_estimators=2, random_state=0, device="cpu",
            inference_precision=precision,
        )
        predictions.append(regressor.fit(np.array(X), np.array(y)).predict(np.array(X_test)))
    print(json.dumps([each.tolist() for each in predictions]))
"""


def test_patched_files_in_plain_tabpfn(
    tiny_v2: Host,
    tiny_v2_5: Host,
    tiny_v2_6: Host,
    table: Table,
    calibration: list[CalibrationTable],
    tmp_path: Path,
) -> None:
    X, y, X_test = np.nan_to_num(table[0]), table[1], table[2]
    paths, expected = [], []
    for host, variant in ((tiny_v2, "oa"), (tiny_v2_5, "full"), (tiny_v2_6, "closed")):
        patched = retrofit.patch(host, variant, tables=calibration)
        path = patched.save(tmp_path / f"tiny-{host.generation.name}-{variant}.safetensors")
        paths.append(str(path))
        expected.append(predict(patched.regressor(**SETTINGS), (X, y, X_test)))
    given = json.dumps([paths, X.tolist(), y.tolist(), X_test.tolist()])
    done, hint = (
        subprocess.run(
            [sys.executable, "-c", SCRIPT, how, given], capture_output=True, text=True, check=False
        )
        for how in ("with", "without")
    )
    assert done.returncode == 0, done.stderr
    for line, want in zip(done.stdout.splitlines(), expected, strict=True):
        default, float32 = (np.array(each) for each in json.loads(line))
        assert np.abs(float32 - want).max() <= 1e-6 * y.std()
        assert np.isfinite(default).all()
    assert hint.returncode != 0
    assert "oretro_tabpfn_v2: import retrofit before" in hint.stderr
