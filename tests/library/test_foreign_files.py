"""Files that are no checkpoints, or not what their names say: told by content, in a sentence."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import random
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import save

import retrofit
from retrofit import CalibrationTable, Host, HostDescription, Patched, errors

if TYPE_CHECKING:
    from collections.abc import Callable

READERS = {"load": retrofit.load_host, "describe": retrofit.describe_host}


def hub_link(folder: Path, raw: bytes) -> Path:
    """As a hub's cache keeps a file: its content has no ending, and its name is a link."""
    (folder / "blobs").mkdir()
    (folder / "snapshots").mkdir()
    (folder / "blobs" / "0a1b2c").write_bytes(raw)
    link = folder / "snapshots" / "mini-v3.safetensors"
    link.symlink_to(Path("..") / "blobs" / "0a1b2c")
    return link


def named(name: str) -> Callable[[Path, bytes], Path]:
    def write(folder: Path, raw: bytes) -> Path:
        (folder / name).write_bytes(raw)
        return folder / name

    return write


PLACES = {
    "link": hub_link,
    "upper case": named("MINI-V3.SAFETENSORS"),
    "backup": named("mini-v3.safetensors.bak"),
    "bare": named("0a1b2c"),
    "pickle's ending": named("mini-v3.ckpt"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_checkpoint_is_known_by_its_content(place: str, mini_host: Host, tmp_path: Path) -> None:
    path = PLACES[place](tmp_path, mini_host.path.read_bytes())
    assert retrofit.load_host(path).sha256 == mini_host.sha256
    assert retrofit.describe_host(path).sha256 == mini_host.sha256


@pytest.mark.parametrize("place", ["link", "bare"])
def test_so_is_a_patched_one(
    place: str, mini_host: Host, calibration: list[CalibrationTable], tmp_path: Path
) -> None:
    saved = tmp_path / "saved-v3.safetensors"
    retrofit.patch(mini_host, "oa", tau=1.0, tables=calibration).save(saved)
    path = PLACES[place](tmp_path, saved.read_bytes())
    assert isinstance(retrofit.load_host(path), Patched)
    assert retrofit.describe_host(path).patched


@pytest.mark.parametrize("name", ["mini-v3.safetensors", "mini-v3"])
def test_so_is_what_torch_saved(name: str, mini_host: Host, tmp_path: Path) -> None:
    path = tmp_path / name
    torch.save(torch_parts(mini_host), path)
    loaded = retrofit.load_host(path)
    assert all(
        torch.equal(tensor, loaded.model.state_dict()[key])
        for key, tensor in mini_host.model.state_dict().items()
    )


def stock_header(host: Host) -> dict[str, Any]:
    raw = host.path.read_bytes()
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


def stock_fields(host: Host) -> dict[str, Any]:
    return {key: json.loads(text) for key, text in stock_header(host)["__metadata__"].items()}


def torch_parts(host: Host) -> dict[str, Any]:
    return {"state_dict": host.model.state_dict(), **stock_fields(host)}


def torch_saved(content: object) -> bytes:
    file = BytesIO()
    torch.save(content, file)
    return file.getvalue()


def zipped(members: dict[str, bytes], compression: int) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def alias_bomb() -> list[Any]:
    bomb: list[Any] = [0]
    for _ in range(60):
        bomb = [bomb, bomb]
    return bomb


def deep(levels: int) -> list[Any]:
    inside: list[Any] = []
    for _ in range(levels):
        inside = [inside]
    return inside


def metadata(**fields: str) -> bytes:
    return save({"weight": torch.zeros(2)}, metadata=fields)


FOREIGN: dict[str, Callable[[], bytes]] = {
    "text": lambda: b"a,b\n1,2\n" * 50,
    "json": lambda: json.dumps({"architecture_name": "tabpfn_v3"}).encode(),
    "a zip": lambda: zipped({"a.txt": b"text"}, zipfile.ZIP_STORED),
    "a zip that inflates": lambda: zipped({"a/data.pkl": bytes(2**25)}, zipfile.ZIP_DEFLATED),
    "half a zip": lambda: zipped({"a.txt": b"text" * 99}, zipfile.ZIP_STORED)[:99],
    "a pickle": lambda: pickle.dumps({"a": 1}),
    "a pickle of the first protocol": lambda: pickle.dumps({"a": 1}, protocol=0),
    "a list": lambda: torch_saved([1, 2]),
    "no state dict": lambda: torch_saved({"config": {}}),
    "a state dict alone": lambda: torch_saved({"weight": torch.zeros(2)}),
    "numbers for tensors": lambda: torch_saved({"state_dict": {"weight": 1.0}}),
    "numbers for names": lambda: torch_saved({"state_dict": {1: torch.zeros(2)}}),
    "a sparse tensor": lambda: torch_saved({"state_dict": {"a": torch.eye(3).to_sparse()}}),
    "a tensor without numbers": lambda: torch_saved(
        {"state_dict": {"a": torch.zeros(3, device="meta")}}
    ),
    "a tensor larger than the file": lambda: torch_saved(
        {"state_dict": {"a": torch.zeros(1).expand(2**30)}}
    ),
    "an alias bomb": lambda: torch_saved({"state_dict": {}, "config": {"a": alias_bomb()}}),
    "deep settings": lambda: torch_saved({"state_dict": {}, "config": {"a": deep(80)}}),
    "deep json": lambda: metadata(config="[" * 100_000),
    "no json": lambda: metadata(config="nonsense"),
    "another framework's": lambda: metadata(format="pt"),
    "a long number": lambda: metadata(config="1" * 5000),
    "a long name": lambda: metadata(architecture_name=json.dumps("x" * 100_000), config="{}"),
    "a control character": lambda: metadata(architecture_name=json.dumps("\x00\x1b[31m")),
    "a list for a name": lambda: metadata(architecture_name="[]"),
    "half a header": lambda: metadata(config="{}")[:40],
    "a header of 8 EiB": lambda: b"\xff" * 7 + b"\x7f{" + b" " * 64,
    "parquet": lambda: b"PAR1" + bytes(64) + b"PAR1",
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_one_sentence(kind: str, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign-v3.ckpt"
    path.write_bytes(FOREIGN[kind]())
    with pytest.raises((errors.CheckpointError, errors.UnsupportedHostError)) as refusal:
        READERS[reader](path)
    assert "foreign-v3.ckpt" in str(refusal.value)
    assert len(str(refusal.value)) < 1000
    assert str(refusal.value).isprintable()


def test_a_file_that_may_not_be_read_is_one_sentence(
    mini_host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locked-v3.safetensors"
    path.write_bytes(mini_host.path.read_bytes())

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(errors.CheckpointError, match="Permission denied"):
        retrofit.load_host(path)


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2, 10**9, 10**30, 0.5, -1e308, float("nan"), float("inf"), "", "x", "\x00",
    [], [1], {}, {"a": 1}, [[]], "tabpfn_v2", "oretro_tabpfn_v3",
)  # fmt: skip


def _somewhere(value: Any, draw: random.Random) -> tuple[Any, Any]:
    """A container inside ``value``, and a place in it."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw.choice(keys)
        child = value[key]
        if isinstance(child, (dict, list)) and child and draw.random() < 0.8:
            value = child
        else:
            return value, key


def _crafted(header: dict[str, Any], fields: dict[str, Any], draw: random.Random) -> bytes:
    """The header of a checkpoint with one to three things in it spoilt, and no weights changed."""
    header, fields = json.loads(json.dumps([header, fields]))
    for _ in range(draw.randint(1, 3)):
        target = draw.choice([fields, fields, fields, header])
        inside, key = _somewhere(target, draw)
        if draw.random() < 0.25:
            del inside[key]
        else:
            inside[key] = copy.deepcopy(draw.choice(VALUES))
        if not fields or not header:
            break
    if isinstance(header.get("__metadata__"), dict):
        header["__metadata__"] = {key: json.dumps(value) for key, value in fields.items()}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("patched", [False, True], ids=["stock", "patched"])
def test_crafted_headers_are_refused_in_a_sentence(
    patched: bool,
    count: int,
    build_host: Callable[..., Host],
    mini_host: Host,
    calibration: list[CalibrationTable],
    tmp_path: Path,
) -> None:
    small = {"embed_dim": 16, "nlayers": 1, "dist_embed_num_blocks": 1, "feat_agg_num_blocks": 1}
    host = build_host(**small)
    whole = tmp_path / "whole-v3.safetensors"
    if patched:
        retrofit.patch(host, "full", tau=0.5, tables=calibration).save(whole)
    else:
        fields = stock_fields(mini_host) | {"config": dataclasses.asdict(host.architecture_config)}
        texts = {key: json.dumps(value) for key, value in fields.items()}
        whole.write_bytes(save(dict(host.model.state_dict()), metadata=texts))
    assert not any(refusal_of(read, whole) for read in READERS.values())
    raw = whole.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    fields = {key: json.loads(text) for key, text in header["__metadata__"].items()}
    draw = random.Random(int(patched))
    refusals = []
    for number in range(count):
        path = tmp_path / f"crafted-{number}-v3.safetensors"
        path.write_bytes(_crafted(header, fields, draw) + raw[start:])
        refusals += [(path.name, refusal_of(read, path)) for read in READERS.values()]
        path.unlink()
    said = [(name, sentence) for name, sentence in refusals if sentence]
    assert all(name in sentence and len(sentence) < 2000 for name, sentence in said)
    assert len(said) > count


def refusal_of(read: Callable[[Path], Host | HostDescription], path: Path) -> str:
    """What the reader says of a file that it refuses; empty if it takes it."""
    try:
        read(path)
    except (errors.CheckpointError, errors.UnsupportedHostError) as refusal:
        return str(refusal)
    return ""
