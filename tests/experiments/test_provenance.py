"""What a result's key holds: the code, the packages and the device that decide its numbers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sweeping import sweep

from experiments.errors import ConfigError, ResultsError
from experiments.machine import device, provenance
from experiments.machine.code import code_sha256, executed_modules
from experiments.machine.kernels import kernel_choice
from experiments.sweep.config import SweepConfig

ROOT = Path(provenance.__file__).parents[2]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    for package in ("experiments", "retrofit"):
        only_code = shutil.ignore_patterns("__pycache__", "assets")
        shutil.copytree(ROOT / package, root / package, ignore=only_code)
    return root


PRESENCE = "retrofit/ops/presence.py"
EDITS = {
    "comment": lambda text: text + "\n# edited\n",
    "docstring": lambda text: text.replace('"""', '"""Edited. ', 1),
    "layout": lambda text: text.replace("import torch\n", "import torch\n\n\n", 1),
    "code": lambda text: text + "\n_EDITED = 1\n",
}


@pytest.mark.parametrize(
    ("name", "kind", "decides"),
    [
        ("experiments/sweep/variants.py", "code", True),
        ("experiments/sweep/metrics.py", "code", True),
        ("experiments/sweep/schema.py", "code", True),
        ("experiments/machine/threads.py", "code", True),
        ("experiments/sweep/run_case.py", "code", True),
        ("experiments/sweep/run_case.py", "comment", False),
        (PRESENCE, "code", True),
        (PRESENCE, "comment", False),
        (PRESENCE, "docstring", False),
        (PRESENCE, "layout", False),
        ("retrofit/hosts/v3/adapter.py", "code", True),
        ("experiments/report/report.py", "code", False),
        ("experiments/cli/output.py", "code", False),
        ("retrofit/contracts/bounds.py", "code", False),
    ],
)
def test_an_edit_changes_the_key_where_it_can_change_a_number(
    checkout: Path, name: str, kind: str, decides: bool
) -> None:
    path = checkout / name
    text = path.read_text()
    code_sha256.cache_clear()
    before = code_sha256(checkout)
    path.write_text(EDITS[kind](text))
    assert path.read_text() != text
    try:
        code_sha256.cache_clear()
        assert (code_sha256(checkout) != before) is decides
    finally:
        path.write_text(text)
    code_sha256.cache_clear()
    assert code_sha256(checkout) == before == code_sha256()


def test_every_module_that_a_case_loads_is_in_the_hash(tmp_path: Path) -> None:
    """Against Python's own list, after a case has run with a closed and a full host."""
    code = (
        "import json, sys\n"
        "from experiments.sweep.config import SweepConfig\n"
        "from experiments.sweep.variants import load_subjects\n"
        "from experiments.sweep.run_case import run_case\n"
        "from experiments.machine.threads import pinned_threads\n"
        "before = {name for name in sys.modules}\n"
        "config = SweepConfig(suite='s', datasets=('diabetes',), seeds=(1,), n_estimators=1,\n"
        "    max_train_rows=20, variants=('stock', 'full', 'closed'), tau=1e-3)\n"
        "from experiments.sweep.cases import plan_cases\n"
        "(planned,) = plan_cases(config)\n"
        "known = {name for name in sys.modules}\n"
        "subjects = load_subjects(config)\n"
        "rows = list(run_case(config, planned, subjects, config.variants))\n"
        "assert {item.row.status for item in rows} == {'ok'}, rows\n"
        "print(json.dumps(sorted(set(sys.modules) - (known - before))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    loaded = {
        name
        for name in json.loads(done.stdout.splitlines()[-1])
        if name.partition(".")[0] in ("retrofit", "experiments")
    }
    # The plan of a sweep, read here for its table, is told apart by hashes of its own.
    planning = ("experiments.data", "experiments.sweep.config", "experiments.io.yaml_file")
    missing = {n for n in loaded - executed_modules().keys() if not n.startswith(planning)}
    assert missing == set()
    assert "retrofit.hosts.prenorm.closed" in loaded


SWEEP = """
import sys
from fakes import load_fakes, toy_frame, toy_source
from experiments.data import registry
from experiments.errors import ResultsError
from experiments.machine import code
from experiments.sweep.config import SweepConfig
from experiments.sweep.run import run_sweep
from pathlib import Path
assert Path(code.__file__).is_relative_to(sys.argv[1]), code.__file__
registry.SOURCES = {"toy": toy_source(left=toy_frame())}
config = SweepConfig(suite="toy", host="fake", datasets=("left",), seeds=(1,), threads=1)
try:
    print(run_sweep(config, Path(sys.argv[2]), load=load_fakes).computed)
except ResultsError as error:
    print(error)
"""


def test_changed_comment_keeps_finished_cases_and_a_changed_kernel_does_not(
    checkout: Path, tmp_path: Path
) -> None:
    def run() -> str:
        paths = os.pathsep.join((str(checkout), str(HERE)))
        done = subprocess.run(
            [sys.executable, "-c", SWEEP, str(checkout), str(tmp_path / "run")],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    path = checkout / "retrofit/ops/attention/kernels.py"
    text = path.read_text()
    try:
        assert run() == "5"
        path.write_text(text.replace('"""', '"""Edited. ', 1) + "\n# edited\n")
        assert run() == "0"
        path.write_text(text + "\n_EDITED = 1\n")
        assert "under other conditions (code_sha256" in run()
    finally:
        path.write_text(text)


@pytest.mark.parametrize(
    "variable",
    ["ATEN_CPU_CAPABILITY", "MKL_CBWR", "OPENBLAS_CORETYPE", "NVIDIA_TF32_OVERRIDE"],
)
def test_settings_that_pick_kernels_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    before = kernel_choice()
    monkeypatch.setenv(variable, "something else")
    assert before == kernel_choice() != kernel_choice.__wrapped__()


def test_what_onednn_may_use_is_asked_of_it() -> None:
    code = "from experiments.machine.kernels import kernel_choice; print(*kernel_choice())"
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "SSE41"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert "('oneDNN', 'none of those asked for')" in done.stdout
    assert "ONEDNN_MAX_CPU_ISA=SSE41" in done.stdout


def test_rows_under_other_kernels_are_not_mixed_in(
    toy_config: SweepConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(toy_config, tmp_path)
    facts = dict(kernel_choice())
    other = tuple((facts | {"settings": "ONEDNN_MAX_CPU_ISA=AVX2"}).items())
    monkeypatch.setattr("experiments.sweep.run.kernel_choice", lambda: other)
    with pytest.raises(ResultsError, match=r"other conditions \(cpu: .*ONEDNN_MAX_CPU_ISA=AVX2"):
        sweep(toy_config, tmp_path)


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
