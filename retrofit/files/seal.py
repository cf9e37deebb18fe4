"""The seal of a patched file: digests inside it that tell damage and edits wherever it is read.

tabpfn reads a file itself, and hands a registered architecture first its configuration and then the
weights. So the digest over the configuration stands in the configuration, and that over the weights
among the settings that it covers. The rest (the preprocessing settings, the report, and up to v2.6
the borders of the output distribution) it keeps to itself;
``retrofit.hosts.generation.Generation.require_whole_file`` looks it up.

    config = {..., "oretro": {..., "weights_sha256"}, "oretro_seal": {"rest_sha256", "sha256"}}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from retrofit.errors import CheckpointError
from retrofit.files.digest import json_sha256, tensors_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

REPORT = "oretro_report"
_SETTINGS = "oretro"
_SEAL = "oretro_seal"
_WEIGHTS = "weights_sha256"
_REST = "rest_sha256"
_WHOLE = "sha256"
_ADVICE = "the file is damaged or was edited; copy it again, or patch its host again"


def is_criterion(name: str) -> bool:
    """Whether tabpfn gives the tensor of that name to the output distribution, not to the model."""
    return "criterion." in name


def sealed(fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The fields of a patched file as plain JSON data, with the seal in the configuration."""
    plain: dict[str, Any] = json.loads(json.dumps(dict(fields)))
    weights = {name: tensor for name, tensor in tensors.items() if not is_criterion(name)}
    plain["config"][_SETTINGS][_WEIGHTS] = tensors_sha256(weights)
    plain["config"][_SEAL] = {_REST: _rest_sha256(plain, tensors)}
    whole = _config_sha256(plain["architecture_name"], plain["config"])
    plain["config"][_SEAL][_WHOLE] = whole
    return plain


def require_sealed_config(architecture_name: str, config: Mapping[str, Any]) -> None:
    """Check the configuration of a patched file, and with it the digests of everything else.

    Raises:
        CheckpointError: it holds no seal, or differs from what was saved.
    """
    seal = config.get(_SEAL) if isinstance(config, dict) else None
    if not isinstance(seal, dict) or seal.get(_WHOLE) != _config_sha256(architecture_name, config):
        msg = (
            f"the settings of the patched checkpoint do not match the sha256 beside them: {_ADVICE}"
        )
        raise CheckpointError(msg)


def require_sealed_rest(fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Check what is no part of the configuration, which is checked already.

    Raises:
        CheckpointError: it differs from what was saved.
    """
    if fields["config"][_SEAL].get(_REST) != _rest_sha256(fields, tensors):
        msg = (
            "the preprocessing settings or the report of the patched checkpoint, or the borders of "
            f"its output distribution, do not match their sha256: {_ADVICE}"
        )
        raise CheckpointError(msg)


def require_weights(tensors: Mapping[str, Tensor], expected: str) -> None:
    """Check weights against a digest; an empty one, of a model that no file holds, asks nothing.

    Raises:
        CheckpointError: they differ.
    """
    if expected and tensors_sha256(tensors) != expected:
        msg = f"the weights differ from those that were saved (sha256 mismatch): {_ADVICE}"
        raise CheckpointError(msg)


def _config_sha256(architecture_name: str, config: Mapping[str, Any]) -> str:
    covered = {**config, _SEAL: {_REST: config[_SEAL].get(_REST)}}
    return json_sha256({"architecture_name": architecture_name, "config": covered})


def _rest_sha256(fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    criterion = {name: tensor for name, tensor in tensors.items() if is_criterion(name)}
    named = {name: fields.get(name) for name in ("inference_config", REPORT)}
    return json_sha256({**named, "criterion": tensors_sha256(criterion)})
