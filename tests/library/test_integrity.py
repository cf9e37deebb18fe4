"""Damaged or edited patched files: refused, or loaded with the meaning they were saved with."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tabpfn.model_loading import load_model

import retrofit
from retrofit import CalibrationTable, Host, Patched, errors
from retrofit.files.digest import tensors_sha256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COUNTS = [
    pytest.param((40, 10, 60), id="some"),
    pytest.param((1000, 200, 500), id="many", marks=pytest.mark.slow),
]


@dataclass(frozen=True)
class Saved:
    """A patched file in parts."""

    raw: bytes
    patched: Patched

    @property
    def start(self) -> int:
        """Where the tensors begin."""
        return 8 + int.from_bytes(self.raw[:8], "little")

    def header(self) -> dict[str, Any]:
        return json.loads(self.raw[8 : self.start])

    def fields(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self.header()["__metadata__"].items()}

    def with_header(self, header: dict[str, Any]) -> bytes:
        text = json.dumps(header).encode()
        return len(text).to_bytes(8, "little") + text + self.raw[self.start :]

    def with_fields(self, fields: dict[str, Any]) -> bytes:
        texts = {name: json.dumps(value) for name, value in fields.items()}
        return self.with_header({**self.header(), "__metadata__": texts})


@pytest.fixture
def saved(
    build_host: Callable[..., Host], calibration: list[CalibrationTable], tmp_path: Path
) -> Saved:
    small = {"embed_dim": 16, "nlayers": 1, "dist_embed_num_blocks": 1, "feat_agg_num_blocks": 1}
    patched = retrofit.patch(build_host(**small), "full", tau=0.5, tables=calibration)
    path = patched.save(tmp_path / "small-v3-full.safetensors")
    return Saved(path.read_bytes(), patched)


def by_oretro(path: Path) -> tuple[object, ...]:
    """What a file means to ``load_host``."""
    host = retrofit.load_host(path)
    assert isinstance(host, Patched)
    weights = tensors_sha256(host.model.state_dict())
    return weights, host.architecture_config, host.report, host.inference_config


def by_tabpfn(path: Path) -> tuple[object, ...]:
    """What a file means to plain tabpfn, which does not look at the report."""
    model, criterion, config, inference = load_model(path=path, estimator_type="regressor")
    weights = [tensors_sha256(part.state_dict()) for part in (model, criterion)]
    return weights, config, inference


READERS = {"oretro": by_oretro, "tabpfn": by_tabpfn}


def flips(saved: Saved, draw: random.Random, count: int) -> Iterator[bytes]:
    """One byte changed: half of the times in the header."""
    for number in range(count):
        end = saved.start if number % 2 else len(saved.raw)
        raw = bytearray(saved.raw)
        raw[draw.randrange(end)] ^= draw.randrange(1, 256)
        yield bytes(raw)


def truncations(saved: Saved, draw: random.Random, count: int) -> Iterator[bytes]:
    for number in range(count):
        yield saved.raw[: draw.randrange(saved.start if number % 2 else len(saved.raw))]


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in inside:
        if isinstance(child, (dict, list)) and child:
            yield from _leaves(child, (*place, key))
        else:
            yield (*place, key)


def _changed(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return draw.choice([x for x in (True, False, None) if x is not value])
    if isinstance(value, (int, float)):
        return draw.choice([value + 1, value * 2 + 1, -value - 1, value / 2 + 1e-9, 0.25])
    if isinstance(value, str):
        return draw.choice(["", value + "x", value[:-1], value.upper() + " "])
    return [1]


def edits(saved: Saved, draw: random.Random, count: int) -> Iterator[bytes]:
    """One setting changed, removed or added, anywhere."""
    places = list(_leaves(saved.fields()))
    for _ in range(count):
        fields = saved.fields()
        *path, last = draw.choice(places)
        inside: Any = fields
        for key in path:
            inside = inside[key]
        kind = draw.choice(["change", "change", "remove", "add"])
        if kind == "change":
            inside[last] = _changed(inside[last], draw)
        elif kind == "remove":
            del inside[last]
        else:
            inside[f"{last}_too" if isinstance(inside, dict) else 0] = 1
        yield saved.with_fields(fields)


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("reader", READERS)
def test_no_damage_changes_what_a_file_means(
    reader: str, counts: tuple[int, int, int], saved: Saved, tmp_path: Path
) -> None:
    read = READERS[reader]
    path = tmp_path / "whole-v3.safetensors"
    path.write_bytes(saved.raw)
    meaning = read(path)
    refusals: list[Exception] = []
    draw = random.Random(0)
    kinds: list[Callable[..., Iterator[bytes]]] = [flips, truncations, edits]
    for make, count in zip(kinds, counts, strict=True):
        for number, raw in enumerate(make(saved, draw, count)):
            path = tmp_path / f"{make.__name__}-{number}-v3.safetensors"
            path.write_bytes(raw)
            try:
                found = read(path)
            except Exception as error:
                refusals.append(error)
            else:
                assert found == meaning, (make.__name__, number)
            path.unlink()
    assert len(refusals) > 0.9 * sum(counts)
    if reader == "oretro":
        assert {type(error) for error in refusals} <= {
            errors.CheckpointError,
            errors.UnsupportedHostError,
        }
        assert max(len(str(error)) for error in refusals) < 2000


SETTINGS_EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "tau": lambda config: config["oretro"]["tau"].update({"output_norm:carrier": 0.75}),
    "eps_den": lambda config: config["oretro"].update(eps_den=1e-3),
    "variant": lambda config: config["oretro"].update(variant="closed"),
    "an emptied digest": lambda config: config["oretro"].update(weights_sha256=""),
    "a stock setting": lambda config: config.update(feat_agg_rope_base=10_000.0),
    "no seal": lambda config: config.pop("oretro_seal"),
    "an emptied seal": lambda config: config.update(oretro_seal={}),
}


@pytest.mark.parametrize("edit", SETTINGS_EDITS)
@pytest.mark.parametrize("reader", READERS)
def test_an_edited_setting_is_named(reader: str, edit: str, saved: Saved, tmp_path: Path) -> None:
    fields = saved.fields()
    SETTINGS_EDITS[edit](fields["config"])
    path = tmp_path / "edited-v3.safetensors"
    path.write_bytes(saved.with_fields(fields))
    with pytest.raises(errors.CheckpointError, match=r"settings .* edited"):
        READERS[reader](path)


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_shape_is_noticed(reader: str, saved: Saved, tmp_path: Path) -> None:
    """Bytes, names and dtypes are those that were saved."""
    header = saved.header()
    shape = header["icl_blocks.0.mlp.0.weight"]["shape"]
    shape.reverse()
    path = tmp_path / "reshaped-v3.safetensors"
    path.write_bytes(saved.with_header(header))
    with pytest.raises(errors.CheckpointError, match=r"weights differ .*sha256"):
        READERS[reader](path)


@pytest.mark.parametrize("reader", READERS)
def test_a_new_line_up_of_the_header_means_the_same(
    reader: str, saved: Saved, tmp_path: Path
) -> None:
    path = tmp_path / "whole-v3.safetensors"
    path.write_bytes(saved.raw)
    meaning = READERS[reader](path)
    path = tmp_path / "respelled-v3.safetensors"
    path.write_bytes(saved.with_fields(dict(reversed(saved.fields().items()))))
    assert READERS[reader](path) == meaning


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("field", ["inference_config", "oretro_report"])
def test_an_edit_beside_the_configuration_is_noticed(
    field: str, reader: str, saved: Saved, tmp_path: Path
) -> None:
    fields = saved.fields()
    if field == "inference_config":
        fields[field]["SOFTMAX_TEMPERATURE"] += 1.0
    else:
        fields[field]["streams"][0]["presence_min"] = 0.5
    path = tmp_path / "edited-v3.safetensors"
    path.write_bytes(saved.with_fields(fields))
    with pytest.raises(errors.CheckpointError, match="preprocessing settings or the report"):
        READERS[reader](path)
