"""The training code takes every regressor of tabpfn's registry, and knows none of them by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tabpfn import TabPFNRegressor
from tabpfn.architectures import ARCHITECTURES

from experiments.errors import ConfigError
from experiments.pretrain.checkpoint import FILE_NAME, load_checkpoint
from experiments.pretrain.config import PretrainConfig, load_config
from experiments.pretrain.export import export_host
from experiments.pretrain.model import (
    architecture_config,
    batch_logits,
    build_loss,
    build_model,
    target_borders,
)
from experiments.pretrain.model_card import model_card
from experiments.pretrain.stream import training_batch
from experiments.pretrain.trainer import train

CONFIGS = Path(__file__).parents[2] / "configs"
PRETRAIN_CODE = Path(__file__).parents[2] / "experiments" / "pretrain"
GRID = {"max_num_classes": 0, "num_buckets": 20, "emsize": 16, "nlayers": 1, "nhead": 2}
STAGED = {
    "num_buckets": 20,
    "embed_dim": 8,
    "dist_embed_num_blocks": 1,
    "dist_embed_num_heads": 1,
    "dist_embed_num_inducing_points": 4,
    "feat_agg_num_blocks": 2,
    "feat_agg_num_heads": 1,
    "feat_agg_num_cls_tokens": 2,
    "nlayers": 1,
    "icl_num_heads": 2,
    "softmax_scaling_mlp_hidden_dim": 4,
}
MODELS = {
    "tabpfn_v2": GRID,
    "tabpfn_v2_5": {**GRID, "num_thinking_rows": 4},
    "tabpfn_v2_6": {**GRID, "num_thinking_rows": 4},
    "tabpfn_v3": {**STAGED, "max_num_classes": -1},
    "tabpfn_v3_5": {
        **STAGED,
        "max_num_classes": 1,
        "decoder_num_heads": 1,
        "decoder_head_dim": 4,
        "fourier_encoding_num_frequencies": 4,
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


def tiny(name: str, **changes: object) -> PretrainConfig:
    return PretrainConfig.model_validate(
        {
            "name": "tiny",
            "processes": 1,
            "budget": {"kind": "steps", "steps": 3},
            "architecture": name,
            "model": MODELS[name],
            "data": {
                "cells": 600,
                "max_tasks": 3,
                "curriculum": [{"until": 1.0, "rows": [20, 40], "columns": [2, 3]}],
            },
            "optimiser": {"warmup_steps": 2, "ema_decay": 0.8},
            "validation": {"shapes": [[30, 2]], "tasks": 3},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    return x, 50 + 9 * x[:, 0]


@every_model
def test_a_trained_model_predicts_in_plain_tabpfn(
    name: str, tmp_path: Path, table: tuple[np.ndarray, np.ndarray]
):
    config = tiny(name)
    fresh = build_model(config).state_dict()
    assert train(config, tmp_path)
    saved = load_checkpoint(tmp_path / FILE_NAME)
    assert any(not torch.equal(saved.model[key], value) for key, value in fresh.items())
    version = name.removeprefix("tabpfn_").replace("_", ".")
    path = tmp_path / f"host-{version}.safetensors"
    export_host(saved, path, half=True)
    with safe_open(path, "pt") as file:
        dtypes = {key: file.get_tensor(key).dtype for key in file.keys()}  # noqa: SIM118
    exact = {key for key, dtype in dtypes.items() if dtype == torch.float32}
    assert {key.split(".")[-1] for key in exact} <= {
        "borders",
        "regression_borders",
        "losses_per_bucket",
    }
    assert exact

    card = model_card(saved, path)
    assert f"architecture | `{name}`" in card
    assert f"{architecture_config(config).name} architecture" in card
    assert "not Prior Labs' model" in card

    x, y = table
    regressor = TabPFNRegressor(
        model_path=str(path), n_estimators=1, device="cpu", inference_precision=torch.float32
    )
    predicted = regressor.fit(x[:30], y[:30]).predict(x[30:])
    assert np.isfinite(predicted).all()
    # Of a model that has learned nothing the mean of the target is all that can be asked.
    assert np.abs(predicted - y[:30].mean()).max() < 4 * y.std()
    loaded = regressor.models_[0]
    assert type(loaded).__module__ == ARCHITECTURES[name].__name__
    assert torch.equal(regressor.znorm_space_bardist_.borders.cpu(), target_borders(20))


@every_model
def test_exports_under_another_generations_name_are_refused(name: str, tmp_path: Path):
    assert train(tiny(name, budget={"kind": "steps", "steps": 1}), tmp_path)
    saved = load_checkpoint(tmp_path / FILE_NAME)
    for other in set(MODELS) - {name}:
        target = tmp_path / f"host-{other.removeprefix('tabpfn_').replace('_', '.')}.safetensors"
        with pytest.raises(ConfigError, match=name.removeprefix("tabpfn_").replace("_", r"\.")):
            export_host(saved, target)
        assert not target.exists()


@every_model
def test_fields_of_the_model_are_those_of_its_architecture(name: str):
    with pytest.raises(ValueError, match="has no field depth"):
        tiny(name, model={**MODELS[name], "depth": 3})
    with pytest.raises(ValueError, match="nlayers"):
        tiny(name, model={**MODELS[name], "nlayers": "many"})
    assert architecture_config(tiny(name)).num_buckets == 20


def test_an_unknown_architecture_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"tabpfn_v9.*tabpfn_v2, .*tabpfn_v3_5"):
        tiny("tabpfn_v2", architecture="tabpfn_v9")


def test_a_head_without_a_logit_per_bucket_is_refused():
    with pytest.raises(ConfigError, match=r"7 logits for num_buckets=20; set max_num_classes"):
        build_model(tiny("tabpfn_v2", model={**GRID, "max_num_classes": 7}))
    with pytest.raises(ConfigError, match="cannot build"):
        build_model(tiny("tabpfn_v2", model={**GRID, "max_num_classes": -1}))


@every_model
def test_a_diverged_model_shows_in_the_loss(name: str):
    config = tiny(name)
    model, loss = build_model(config), build_loss(config)
    batch = training_batch(config.data, config.prior, seed=0, step=0, rank=0, progress=0.0)
    assert torch.isfinite(loss(*batch_logits(model, batch))).all()
    bias = next(p for n, p in model.named_parameters() if n.endswith("bias") and p.shape == (20,))
    with torch.no_grad():
        bias[0] = float("nan")
    assert torch.isnan(loss(*batch_logits(model, batch))).all()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("mini_*.yaml")), ids=lambda path: path.stem)
def test_configured_hosts_fit_their_size(path: Path):
    model = build_model(load_config(path))
    assert sum(value.numel() for value in model.state_dict().values()) < 1.5e6


def test_the_training_code_names_no_generation():
    for path in PRETRAIN_CODE.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in ARCHITECTURES if name in text], path.name
