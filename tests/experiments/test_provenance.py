"""What a result's key holds: the code, the packages and the device that decide its numbers."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
import torch

from experiments.errors import ConfigError
from experiments.machine import device, provenance

ROOT = Path(provenance.__file__).parent.parent


def hash_of_code(root: Path) -> str:
    """The hash that a checkout at ``root`` has, by a module of its own that cached nothing."""
    path = root / "experiments" / "provenance.py"
    spec = importlib.util.spec_from_file_location("provenance_of_a_copy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.code_sha256()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    for package in ("experiments", "retrofit"):
        only_code = shutil.ignore_patterns("__pycache__", "assets")
        shutil.copytree(ROOT / package, root / package, ignore=only_code)
    return root


@pytest.mark.parametrize(
    ("name", "decides"),
    [
        ("experiments/sweep/variants.py", True),
        ("experiments/machine/threads.py", True),
        ("experiments/sweep/run_case.py", True),
        ("experiments/data/normalise.py", True),
        ("retrofit/ops/presence.py", True),
        ("experiments/report/report.py", False),
        ("experiments/cli/output.py", False),
    ],
)
def test_an_edit_changes_the_key_where_it_can_change_a_number(
    checkout: Path, name: str, decides: bool
) -> None:
    path = checkout / name
    before, text = hash_of_code(checkout), path.read_text()
    path.write_text(text + "\n# edited\n")
    try:
        assert (hash_of_code(checkout) != before) is decides
    finally:
        path.write_text(text)
    assert hash_of_code(checkout) == before == provenance.code_sha256()


def test_packages_that_compute_scores_are_in_the_key() -> None:
    assert {"torch", "tabpfn", "scikit-learn", "numpy", "scipy", "pandas"} <= {
        *provenance.KEY_PACKAGES
    }


@pytest.mark.parametrize("text", ["cdua", "gpu", "", "CPU", "cuda:x", "meta"])
def test_misspelt_device_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"device: '{text}' is none; give cpu, cuda"):
        device.resolve_device(text)


def gpus(monkeypatch: pytest.MonkeyPatch, *names: str, mps: bool = False) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(names))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda text: names[torch.device(text).index])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("names", "mps", "text", "resolved", "model"),
    [
        ((), False, "auto", "cpu", "cpu"),
        ((), True, "auto", "mps", "mps"),
        (("A", "B"), True, "auto", "cuda:0", "cuda A"),
        (("A", "B"), False, "cuda", "cuda:0", "cuda A"),
        (("A", "B"), False, "cuda:1", "cuda:1", "cuda B"),
        (("A", "B"), False, "cpu", "cpu", "cpu"),
    ],
)
def test_device_is_settled_and_known_by_its_model(
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    mps: bool,
    text: str,
    resolved: str,
    model: str,
) -> None:
    gpus(monkeypatch, *names, mps=mps)
    assert device.resolve_device(text) == resolved
    assert device.device_model(resolved) == model


@pytest.mark.parametrize("text", ["cuda", "cuda:0", "cuda:7", "mps"])
def test_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    gpus(monkeypatch)
    with pytest.raises(ConfigError, match=rf"device: '{text}': torch .* here; give cpu"):
        device.resolve_device(text)
