"""The built-in hosts: what their files, cards and names say of them, and that each has learned."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from tabpfn.checkpoint import Checkpoint

from retrofit.files.digest import file_sha256
from retrofit.patching.load import load_host
from retrofit.patching.sources import built_in_name
from retrofit.words import BUILT_IN_HOSTS, BUILT_IN_MODELS

ASSETS = Path(str(files("retrofit"))) / "assets"
MOST_BYTES = 3_000_000
TRAINED_IN_HALF = ("mini-v2", "mini-v3.5")
every_host = pytest.mark.parametrize("name", BUILT_IN_HOSTS)


@every_host
def test_a_host_says_whose_architecture_it_has_and_whose_it_is_not(name: str) -> None:
    path = ASSETS / BUILT_IN_HOSTS[name]
    fields = Checkpoint(path).load()
    assert fields["config"]["name"].replace("-", " ") == BUILT_IN_MODELS[name]
    assert "Not Prior Labs' model" in fields["oretro_pretraining"]["notice"]
    assert fields["oretro_pretraining"]["finished"] is True
    digest = file_sha256(path)
    cards = [card for card in ASSETS.glob("*.md") if digest in card.read_text(encoding="utf-8")]
    assert len(cards) == 1
    assert "**This is not Prior Labs' model.**" in cards[0].read_text(encoding="utf-8")
    assert BUILT_IN_HOSTS[built_in_name(digest) or ""] == path.name


@pytest.mark.parametrize("name", TRAINED_IN_HALF)
def test_small_hosts_stay_small(name: str) -> None:
    path = ASSETS / BUILT_IN_HOSTS[name]
    assert path.stat().st_size < MOST_BYTES
    kinds = {tensor.dtype for tensor in Checkpoint(path).load()["state_dict"].values()}
    assert kinds == {torch.float16, torch.float32}


@every_host
def test_a_host_has_learned_to_regress(name: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(150, 4))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * (x[:, 2] > 0) + 0.1 * rng.normal(size=150)
    regressor = load_host(name).regressor(
        n_estimators=1, device="cpu", inference_precision=torch.float32, random_state=0
    )
    predicted = regressor.fit(x[:110], y[:110]).predict(x[110:])
    design = np.column_stack([x, np.ones(150)])
    line = design[110:] @ np.linalg.lstsq(design[:110], y[:110], rcond=None)[0]
    errors = [np.mean((guess - y[110:]) ** 2) for guess in (predicted, line)]
    assert errors[0] < 0.8 * errors[1]
