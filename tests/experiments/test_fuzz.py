"""Damaged and crafted files of every kind that a sweep reads: a sentence each, short and soon."""

from __future__ import annotations

import copy
import json
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import subjects
from sweeping import sweep

from experiments.cli.eval_command import default_folder
from experiments.errors import ExperimentError
from experiments.report.report import write_report
from experiments.sweep.cases import enumerate_cases
from experiments.sweep.config import SweepConfig, load_config
from experiments.sweep.folder.lock import HOLDER_FILE, folder_lock
from experiments.sweep.folder.results import read_cases
from experiments.sweep.run import run_sweep

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS, LONGEST = 10, 2000

CONFIG = {
    "suite": "fuzz",
    "host": "mini",
    "variants": ["stock", "oa", "full@0.99"],
    "datasets": ["left", "right"],
    "files": [{"path": "a.csv", "target": "y", "drop": ["b"], "delimiter": ";"}],
    "openml": {"server": "https://example.org/api/v1/xml", "tries": 2, "cache": "c"},
    "seeds": [1, 2],
    "splits": "ours",
    "limit": 3,
    "test_fraction": 0.3,
    "max_train_rows": 100,
    "n_estimators": 2,
    "device": "cpu",
    "threads": 1,
    "eps_den": 1e-8,
    "eps_mode": "absolute",
    "timing_repeats": 1,
    "noise_floor": True,
    "equivalence_margin_pct": 0.5,
}


def hostile(draw: random.Random) -> Any:
    """A value that nobody means."""
    nested: Any = "x"
    for _ in range(draw.choice([3, 40, 200])):
        nested = [nested]
    values = [None, True, [], {}, "", "\0", "\ud800", "\x1b[31m", "a" * draw.choice([300, 10**5])]
    values += [-1, 0, 10**30, 10**400, 1e308, -1e308, 1e-320, float("inf"), float("nan")]
    values += ["inf", "1e308", "2024-13-45", "~nosuchuser/x", "/", "..", "openml:0", "oa@2", nested]
    values += [{"a": {"b": nested}}, {"": 1}, ["x", 1, None], [1] * 5000, "http://h:99999/api"]
    return draw.choice(values)


def edited(content: Any, draw: random.Random) -> Any:
    """The content with up to three values exchanged, taken out or added."""
    content = copy.deepcopy(content)
    for _ in range(draw.randint(1, 3)):
        place = content
        while isinstance(place, (dict, list)) and place:
            keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw.choice(keys)
            if not isinstance(place[key], (dict, list)) or not place[key] or draw.random() < 0.3:
                break
            place = place[key]
        if not isinstance(place, (dict, list)) or not place:
            continue
        kind = draw.random()
        if kind < 0.7:
            place[key] = hostile(draw)
        elif kind < 0.85:
            del place[key]
        elif isinstance(place, dict):
            place[draw.choice(["more", "", "x" * 900, "\x07"])] = hostile(draw)
    return content


def torn(content: bytes, draw: random.Random) -> bytes:
    """The bytes cut, with some of them exchanged, doubled, or with foreign ones between."""
    kind, place = draw.randrange(5), draw.randrange(len(content) + 1)
    if kind == 0:
        return content[:place]
    if kind == 1:
        changed = bytearray(content)
        for _ in range(draw.randint(1, 8)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return bytes(changed)
    if kind == 2:
        return content + content[place:]
    foreign = [b"\0", b"\xff\xfe", b"[" * 5000, b"{" * 5000, b"&a [*a]", b"!!set {}", b"\r\n", b'"']
    foreign += [b"? ", b": ", b"- - - ", b"%YAML 9.9\n", b"9" * 5000, b"\xef\xbb\xbf", b"\t", b"'"]
    return content[:place] + draw.choice(foreign) + content[place:]


@contextmanager
def soon() -> Iterator[None]:
    def too_late(number: int, frame: object) -> None:
        raise AssertionError(f"not over after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survives(work: Callable[[], object], seed: int) -> bool:
    """Whether work was refused; anything but a short sentence of ours fails the test."""
    try:
        with soon():
            work()
    except ExperimentError as error:
        message = str(error)
        assert 0 < len(message) < LONGEST, (seed, len(message))
        assert not {"\0", "\x1b", "\x07"} & set(message), (seed, message)
        return True
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return False


def as_yaml(content: Any) -> bytes:
    return yaml.dump(content, allow_unicode=False, Dumper=NoAlias).encode()


class NoAlias(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def test_configurations(toy_tables: object, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"

    def read() -> None:
        config = load_config(path)
        enumerate_cases(config)
        default_folder(config)

    refused = 0
    for seed in range(800):
        draw = random.Random(seed)
        if seed % 2:
            path.write_bytes(torn(as_yaml(CONFIG), draw))
        else:
            path.write_bytes(as_yaml(edited(CONFIG, draw)))
        refused += survives(read, seed)
    assert 400 < refused < 800


@pytest.fixture
def finished(toy_config: SweepConfig, tmp_path: Path) -> tuple[SweepConfig, Path]:
    one = toy_config.model_copy(update={"datasets": ("left",), "seeds": (1,)})
    sweep(one, tmp_path)
    return one, tmp_path


def broken(whole: bytes, seed: int) -> bytes:
    draw = random.Random(seed)
    if seed % 2:
        return torn(whole, draw)
    return json.dumps(edited(json.loads(whole), draw)).encode()


def test_records_of_results(finished: tuple[SweepConfig, Path]) -> None:
    config, folder = finished
    paths = sorted([*(folder / "cases").iterdir(), *(folder / "noise").iterdir()])
    whole = {path: path.read_bytes() for path in paths}
    table = read_cases(folder / "cases.csv").drop(columns=["fit_s", "predict_s", "peak_rss_mb"])
    ready = subjects()
    for seed in range(0, 400, len(paths)):
        for number, path in enumerate(paths, start=seed):
            path.write_bytes(broken(whole[path], number))
        # One that claims another version is refused; any other is computed again.
        while survives(lambda: run_sweep(config, folder, load=lambda _: ready), seed):
            claims = [item for item in paths if claims_another_version(item)]
            assert claims, seed
            for item in claims:
                item.write_bytes(whole[item])
        again = read_cases(folder / "cases.csv").drop(columns=["fit_s", "predict_s", "peak_rss_mb"])
        assert again.to_csv() == table.to_csv(), seed


def claims_another_version(path: Path) -> bool:
    try:
        version = json.loads(path.read_bytes())["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(version, int) and version != 2


def test_run_records(finished: tuple[SweepConfig, Path]) -> None:
    _, folder = finished
    path, out = folder / "run.json", folder / "out"
    whole = path.read_bytes()
    refused = 0
    for seed in range(500):
        path.write_bytes(broken(whole, seed))
        refused += survives(lambda: write_report(folder, out, figures=False), seed)
    assert 250 < refused < 500


def test_tables_and_holders(finished: tuple[SweepConfig, Path]) -> None:
    _, folder = finished
    path, holder = folder / "cases.csv", folder / HOLDER_FILE
    whole = path.read_bytes()
    with folder_lock(folder):
        held = holder.read_bytes()
    refused = 0
    for seed in range(280):
        path.write_bytes(torn(whole, random.Random(seed)))
        refused += survives(lambda: read_cases(path), seed)
    assert 100 < refused < 280

    def hold() -> None:
        with folder_lock(folder):
            pass

    for seed in range(20):
        holder.write_bytes(broken(held, seed))
        assert not survives(hold, seed)
