"""Reading and writing checkpoint files: headers, integrity, and the patched file format.

A patched file is a ``.safetensors`` file whose header holds, as JSON, what tabpfn expects
(``architecture_name``, ``config``, ``inference_config``) and a digest over everything in it. The
settings of the retrofit stand in the architecture configuration under ``oretro``.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from retrofit.errors import CheckpointError
from retrofit.files.atomic import require_writable, write_atomic
from retrofit.files.digest import json_sha256, tensors_sha256

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

CONTENT_DIGEST = "oretro_content_sha256"
REPORT = "oretro_report"


@dataclass(frozen=True)
class Header:
    """What a checkpoint file says of itself, without its weights."""

    path: Path
    fields: Mapping[str, Any]
    """Every JSON field of the file, the state dict left out."""
    dtypes: Mapping[str, torch.dtype]
    """dtype of every tensor as it is stored."""

    @property
    def architecture_name(self) -> str:
        """Name of the architecture as tabpfn registers it.

        Raises:
            CheckpointError: the file names none.
        """
        name = self.fields.get("architecture_name")
        if not isinstance(name, str):
            msg = (
                f"{self.path} names no architecture ('architecture_name'); tabpfn would read it "
                "as a v2 model, whatever it is. Export the checkpoint again with this field"
            )
            raise CheckpointError(msg)
        return name

    @property
    def config(self) -> dict[str, Any]:
        """The architecture's configuration.

        Raises:
            CheckpointError: the file holds none.
        """
        return self._mapping("config")

    @property
    def inference_config(self) -> dict[str, Any]:
        """The preprocessing settings.

        Raises:
            CheckpointError: the file holds none.
        """
        return self._mapping("inference_config")

    def _mapping(self, field: str) -> dict[str, Any]:
        value = self.fields.get(field)
        if not isinstance(value, dict):
            msg = (
                f"{self.path} holds no {field!r}; tabpfn would guess one, and the numbers would "
                "depend on the guess. Export the checkpoint again with this field"
            )
            raise CheckpointError(msg)
        return value


def read_header(path: Path) -> Header:
    """Read what a ``.safetensors`` or ``.ckpt`` file says of itself.

    A ``.ckpt`` is unpickled with ``weights_only=True``: it can hold no code.

    Raises:
        CheckpointError: the file is damaged, or holds objects other than tensors and plain data.
    """
    if path.suffix == ".safetensors":
        return _read_safetensors_header(path)
    try:
        # Only torch's zip format can be mapped; the one before it has to be read.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zipfile(path))
    except pickle.UnpicklingError as error:
        msg = (
            f"{path} is not a checkpoint that can be read without running code from it; export it "
            "as .safetensors from where you trust it"
        )
        raise CheckpointError(msg) from error
    except (RuntimeError, EOFError, ValueError, OSError, KeyError) as error:
        msg = f"{path} is not a readable checkpoint ({error}); it may be cut or damaged"
        raise CheckpointError(msg) from error
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        msg = f"{path} holds no 'state_dict'; it is not a tabpfn checkpoint"
        raise CheckpointError(msg)
    state = content.pop("state_dict")
    return Header(path, content, {name: tensor.dtype for name, tensor in state.items()})


def verify_patched(header: Header) -> None:
    """Check every tensor and every field of a patched file against the digest inside it.

    Raises:
        CheckpointError: something differs from what was saved.
    """
    with safe_open(header.path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    fields = {key: value for key, value in header.fields.items() if key != CONTENT_DIGEST}
    if header.fields.get(CONTENT_DIGEST) != _content_sha256(tensors, fields):
        msg = (
            f"{header.path} is damaged or was edited: its content does not match the sha256 "
            "inside it; copy it again, or patch its host again"
        )
        raise CheckpointError(msg)


def require_writable_checkpoint(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path that a patched file would be written to, checked before anything is computed.

    Raises:
        CheckpointError: the name does not end in ``.safetensors``, its folder is missing, or the
            file exists and ``overwrite`` is false.
    """
    return require_writable(path, ".safetensors", overwrite=overwrite, error=CheckpointError)


def write_patched(
    path: Path, tensors: Mapping[str, Tensor], fields: Mapping[str, Any], *, overwrite: bool = False
) -> None:
    """Write a patched file: all of it or nothing.

    Raises:
        CheckpointError: as ``require_writable_checkpoint``, or the disk is full.
    """
    require_writable_checkpoint(path, overwrite=overwrite)
    owned = _owning_their_storage(tensors)
    content = {**fields, CONTENT_DIGEST: _content_sha256(owned, fields)}
    metadata = {key: json.dumps(value, sort_keys=True) for key, value in content.items()}
    write_atomic(path, save(owned, metadata=metadata), error=CheckpointError)


def _read_safetensors_header(path: Path) -> Header:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            dtypes = {
                name: _SAFETENSORS_DTYPES[file.get_slice(name).get_dtype()]
                for name in file.keys()  # noqa: SIM118
            }
        return Header(path, {key: json.loads(value) for key, value in metadata.items()}, dtypes)
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        msg = f"{path} is not a readable .safetensors file ({error}); it may be cut or damaged"
        raise CheckpointError(msg) from error


_SAFETENSORS_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


def _content_sha256(tensors: Mapping[str, Tensor], fields: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(fields))
    return json_sha256({"tensors": tensors_sha256(tensors), "fields": plain})


def _owning_their_storage(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors on the CPU; tied ones are copied, since the format cannot tie."""
    owned: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        pointer = plain.untyped_storage().data_ptr()
        owned[name] = plain.clone() if pointer in seen else plain
        seen.add(pointer)
    return owned
