"""Reading checkpoint files, stock or patched, and writing patched ones.

A file is read once: its hash, its settings and its weights are of the same bytes. What kind of file
it is, its first bytes say, never its name.

A patched file is a ``.safetensors`` file whose header holds, as JSON, what tabpfn expects
(``architecture_name``, ``config``, ``inference_config``) and the report of the patch. The settings
of the retrofit stand in the architecture's configuration under ``oretro``, and a seal beside them
(``retrofit.files.seal``).
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, TypeAlias
from zipfile import ZIP_STORED, ZipFile

import torch
from safetensors.torch import load, save
from torch import Tensor

from retrofit.errors import CheckpointError, brief
from retrofit.files.atomic import require_writable, write_atomic
from retrofit.files.seal import REPORT, is_criterion, sealed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

_FIELDS = ("architecture_name", "config", "inference_config", REPORT)
"""What is read of a file besides its tensors."""
_LARGEST_HEADER = 2**24
_MOST_VALUES = 100_000
_DEEPEST = 64


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a checkpoint file holds."""

    path: Path
    sha256: str
    """sha256 of the file's bytes."""
    fields: Mapping[str, Any]
    """The fields that stand beside the weights, as plain data."""
    tensors: Mapping[str, Tensor]
    """Every tensor of the state dict, on the CPU, in the dtype it is stored in."""
    note: str = ""
    """What was read into a file that does not say it itself."""

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        """dtype of every tensor as it is stored."""
        return {name: tensor.dtype for name, tensor in self.tensors.items()}

    @property
    def criterion_state(self) -> dict[str, Tensor]:
        """Tensors that belong to the output distribution rather than to the model."""
        return {name: tensor for name, tensor in self.tensors.items() if is_criterion(name)}

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


_Content: TypeAlias = tuple[Mapping[str, Any], Mapping[str, Tensor]]


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a safetensors file, or a file that ``torch.save`` wrote, whatever it is called.

    A pickle is read with ``weights_only=True``: no code runs from it.

    Raises:
        CheckpointError: the file is of another kind, damaged, holds objects other than tensors and
            plain data, or claims to hold more than it can.
    """
    try:
        with path.open("rb") as file:
            read = _reader(file.read(16))
            file.seek(0)
            content = file.read()
        fields, tensors = read(content)
        kept = {name: fields[name] for name in _FIELDS if name in fields}
        _require_bounded(kept)
        for name, tensor in tensors.items():
            _require_dense(name, tensor, len(content))
    except pickle.UnpicklingError as error:
        msg = (
            f"{path} is not a checkpoint that can be read without running code from it; export it "
            "as .safetensors from where you trust it"
        )
        raise CheckpointError(msg) from error
    except MemoryError:
        raise
    except Exception as error:  # the parsers raise anything at what they do not expect
        reason = brief(error) or type(error).__name__
        msg = f"{path} is not a readable checkpoint ({reason}); it may be cut or damaged"
        raise CheckpointError(msg) from error
    return Checkpoint(path, hashlib.sha256(content).hexdigest(), kept, dict(tensors))


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
    content = sealed(fields, owned)
    metadata = {key: json.dumps(value, sort_keys=True) for key, value in content.items()}
    write_atomic(path, save(owned, metadata=metadata), error=CheckpointError)


def _reader(head: bytes) -> Callable[[bytes], _Content]:
    """How to read a file that begins with ``head``."""
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= _LARGEST_HEADER:
        return _from_safetensors
    if head.startswith(b"PK\x03\x04"):
        return _from_zip
    if head.startswith(pickle.PROTO):
        return _from_pickle
    msg = "by its first bytes it is neither a safetensors file nor one that torch.save wrote"
    raise ValueError(msg)


def _from_safetensors(content: bytes) -> _Content:
    tensors = load(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    metadata = header.get("__metadata__", {})
    return {name: json.loads(metadata[name]) for name in _FIELDS if name in metadata}, tensors


def _from_zip(content: bytes) -> _Content:
    with ZipFile(BytesIO(content)) as archive:
        members = archive.infolist()
    inflated = sum(member.file_size for member in members)
    if inflated > len(content) or any(member.compress_type != ZIP_STORED for member in members):
        msg = f"a zip archive that inflates to {inflated} bytes; torch.save compresses nothing"
        raise ValueError(msg)
    return _from_pickle(content)


def _from_pickle(content: bytes) -> _Content:
    held = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(held, Mapping) or not isinstance(held.get("state_dict"), Mapping):
        msg = "it holds no 'state_dict', as every tabpfn checkpoint does"
        raise ValueError(msg)
    return held, held["state_dict"]


def _require_bounded(value: Any) -> None:
    """Refuse data so deep or wide, references followed, that walking through it would not end."""
    waiting, values = [(value, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        inside = node.values() if isinstance(node, Mapping) else node
        if not isinstance(node, (Mapping, list, tuple, set, frozenset)):
            continue
        values += len(node)
        if values > _MOST_VALUES or depth > _DEEPEST:
            msg = f"its settings hold over {_MOST_VALUES} values, or over {_DEEPEST} levels"
            raise ValueError(msg)
        waiting.extend((child, depth + 1) for child in inside)


def _require_dense(name: object, tensor: object, file_size: int) -> None:
    if not isinstance(name, str) or not isinstance(tensor, Tensor):
        msg = f"its state dict holds a {type(tensor).__name__} where a tensor should be"
        raise TypeError(msg)
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        msg = f"its tensor {name!r} is not a plain one ({tensor.layout}, {tensor.device})"
        raise ValueError(msg)
    if tensor.numel() * tensor.element_size() > file_size:
        msg = f"its tensor {name!r} of shape {tuple(tensor.shape)} is larger than the file"
        raise ValueError(msg)


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
