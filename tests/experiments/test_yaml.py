"""Configurations that are foreign, crafted or torn: one short sentence each, and quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from experiments.errors import ConfigError
from experiments.io.yaml_file import read_yaml
from experiments.sweep.config import load_config

MINIMAL = "suite: mine\ndatasets: [diabetes]\nseeds: [1]\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"1: x\n", r"field 1 at line 1 is not a text: quote it"),
        (b"suite: a\n? [b, c]\n: d\n", r"field \['b', 'c'\] at line 2 is not a text"),
        (b"? {a: b}\n: d\n", "is not a text"),
        (b"null: x\n", "field None at line 1"),
        (b"yes: x\n", "field True at line 1"),
        (b"suite: !!python/object:os.system x\n", "tag .* at line 1: leave it out"),
        (b"suite: !!binary aGVsbG8=\n", "tag .* at line 1"),
        (b"suite: !!int ''\n", "tag .* at line 1"),
        (b"suite: &a x\nhost: *a\n", "anchor or alias at line 1: write the value out"),
        (BOMB.encode(), "anchor or alias at line 1"),
        (b"suite: " + b"[" * 40 + b"]" * 40, "nested more than 30 deep"),
        (b"suite: " + b"[" * 100_000, "nested more than 30 deep"),
        (b"a:\n" + b"".join(b" " * n + b"- \n" for n in range(1, 50)), "nested more than"),
        (b"suite: a\0b\n", "not valid YAML"),
        (b"\xff\xfes\x00u\x00", "save it as UTF-8"),
        (b"suite: \xe9t\xe9\n", "save it as UTF-8"),
        (b"seeds: [" + b"9" * 5000 + b"]\n", "not valid YAML.*digits"),
        (b"suite: =\n" + MINIMAL.encode(), "stands twice"),
        (b"x" * (2**20 + 1), "larger than 1 MiB"),
        (b"", "found nothing"),
        (b"--- a\n--- b\n", "not valid YAML"),
        (b"just words\n", "expected fields with values, found str"),
    ],
    ids=lambda value: value[:20].decode("ascii", "replace") if isinstance(value, bytes) else "",
)
def test_file_that_is_no_plain_yaml_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_bytes(content)
    start = time.perf_counter()
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(path)
    assert time.perf_counter() - start < 5
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 2000
    assert "\0" not in str(caught.value)


def test_dates_and_merge_keys_are_texts_like_others(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 2024-13-45\nb: 2024-01-01\nc: {<<: 1}\nd: 2001-12-14t21:59:43.10-05:00\n")
    assert read_yaml(path) == {
        "a": "2024-13-45",
        "b": "2024-01-01",
        "c": {"<<": 1},
        "d": "2001-12-14t21:59:43.10-05:00",
    }


def test_plain_values_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\nb: 1.5\nc: true\nd: null\ne: [x, 'y', \"z\"]\nf: {g: h}\n")
    assert read_yaml(path) == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": ["x", "y", "z"],
        "f": {"g": "h"},
    }


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("equivalence_margin_pct: .inf", "equivalence_margin_pct: .*finite"),
        ("equivalence_margin_pct: 1.0e+308", "equivalence_margin_pct: .*less than or equal"),
        ("test_fraction: .nan", "test_fraction: "),
        ("tau: 1.0e+308", "tau: "),
        ("eps_den: .inf", "eps_den: .*finite"),
        ("target_presence: .nan", "target_presence: "),
        ("openml: {read_timeout_s: .inf}", "openml.read_timeout_s: "),
        ("openml: {server: 'http://host:99999/api'}", "openml.server: "),
        ("openml: {server: 'http://[::1/api'}", "openml.server: "),
        ("openml: {server: 'http://host:x/api'}", "openml.server: "),
        ("n_estimators: 100000000000000000000", "n_estimators: "),
        ('files: [{path: "a\\0b", target: y}]', "files.0.path: holds a NUL"),
        (f"suit{'e' * 900}: x", "unknown field"),
        (f"n_estimators: {'x' * 5000}", "n_estimators: "),
        ("".join(f"field{n}: x\n" for n in range(200)), "and 192 more faults"),
        ("seeds2: [1]\nthreads: many\ntau: [1]", "threads: .*got 'many'"),
    ],
    ids=lambda value: value[:30],
)
def test_value_that_cannot_be_meant_is_named_shortly(tmp_path: Path, extra: str, told: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(MINIMAL + extra + "\n")
    with pytest.raises(ConfigError, match=told) as caught:
        load_config(path)
    assert len(str(caught.value)) < 2000


def test_pretraining_reads_by_the_same_rules(tmp_path: Path) -> None:
    from experiments.pretrain.config import load_config as load_pretraining

    path = tmp_path / "x.yaml"
    path.write_text("name: &a b\nseed: *a\n")
    with pytest.raises(ConfigError, match="anchor or alias at line 1"):
        load_pretraining(path)
