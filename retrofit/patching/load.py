"""Hosts by name: the built-in one, the official ones, or a file."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from safetensors import safe_open
from tabpfn.model_loading import load_model

from retrofit.errors import CheckpointError, UnsupportedHostError
from retrofit.files.checkpoint import REPORT, Header, read_header, verify_patched
from retrofit.files.digest import file_sha256
from retrofit.hosts.clone import alias
from retrofit.hosts.host import Host, HostDescription
from retrofit.hosts.registry import generation_of, is_patched_name
from retrofit.hosts.report import PatchReport
from retrofit.patching.patch import Patched
from retrofit.patching.sources import download, locate, released_generation

if TYPE_CHECKING:
    import os

    from retrofit.hosts.generation import Generation


def load_host(name: str | os.PathLike[str]) -> Host:
    """Load a stock host, or a patched one (then a ``Patched``), by name.

    ``mini`` and its kin are built-in stand-ins (not Prior Labs' models); a version such as ``v3``,
    ``default``, or a file name of Prior Labs goes through tabpfn's own cache, download and licence
    flow; anything else is a path. Nothing is created or contacted for a path.

    Raises:
        HostNotFoundError: no such host here, and it cannot be fetched.
        CheckpointError: the file is damaged, foreign, or not what it claims to be.
        UnsupportedHostError: the file holds a model that oretro cannot patch.
    """
    path = locate(name)
    if path is None:
        path = download(str(name))
    header = read_header(path)
    _require_regressor(header, generation_of(header.architecture_name))
    patched = is_patched_name(header.architecture_name)
    if patched:
        verify_patched(header)
    host = _build(str(name), header)
    if not patched:
        return host
    report = header.fields.get(REPORT)
    if not isinstance(report, dict):
        msg = f"{path} holds no report of its patching ({REPORT})"
        raise CheckpointError(msg)
    try:
        patch_report = PatchReport.from_dict(report)
    except ValidationError as error:
        msg = f"{path}: its report ({REPORT}) is not one that this oretro writes: {error}"
        raise CheckpointError(msg) from error
    fields = {**vars(host), "sha256": patch_report.config.host_sha256, "report": patch_report}
    return Patched(**fields)


def describe_host(name: str | os.PathLike[str]) -> HostDescription:
    """What is known of a host without reading its weights, or fetching anything.

    An official host that is not on this machine is described by the default configuration of
    the installed tabpfn, with a note that says so.

    Raises:
        HostNotFoundError, CheckpointError, UnsupportedHostError: as ``load_host``.
    """
    path = locate(name)
    if path is None:
        generation = released_generation(str(name))
        return HostDescription(
            name=str(name),
            generation=generation,
            architecture_config=generation.released_config(),
            path=None,
            sha256="",
            note=(
                "not on this machine: described by the default configuration of the installed "
                "tabpfn, which the released file may differ from"
            ),
        )
    header = read_header(path)
    generation = generation_of(header.architecture_name)
    _require_regressor(header, generation)
    patched = is_patched_name(header.architecture_name)
    module = generation if patched else generation.architecture
    config, _ = module.parse_config(dict(header.config))
    return HostDescription(str(name), generation, config, path, file_sha256(path), patched=patched)


def _require_regressor(header: Header, generation: Generation) -> None:
    # Read now, so that a missing field is refused before any weight is.
    config, _ = header.config, header.inference_config
    reason = generation.refusal(config)
    if reason:
        msg = f"{header.path} {reason}; oretro patches regressors"
        raise UnsupportedHostError(msg)


def _build(name: str, header: Header) -> Host:
    try:
        model, criterion, config, inference_config = load_model(
            path=header.path, estimator_type="regressor"
        )
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, (CheckpointError, UnsupportedHostError)):
            raise
        reason = str(error).strip().splitlines()
        msg = (
            f"{header.path}: its weights do not fit its own configuration "
            f"({reason[0] if reason else type(error).__name__}); keys with a prefix such as "
            "'module.' or '_orig_mod.' come from a wrapped model: save the inner model"
        )
        raise CheckpointError(msg) from error
    return Host(
        name=name,
        # tabpfn may hand the same built model to other callers (TABPFN_MODEL_CACHE_SIZE).
        model=alias(model),
        architecture_config=config,
        inference_config=copy.deepcopy(inference_config),
        criterion=criterion,
        sha256=file_sha256(header.path),
        path=header.path,
        dtypes=header.dtypes,
        criterion_state=_criterion_tensors(header),
    )


def _criterion_tensors(header: Header) -> dict[str, Any]:
    names = [name for name in header.dtypes if "criterion." in name]
    if not names:
        return {}
    if header.path.suffix == ".safetensors":
        with safe_open(header.path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in names}
    content = torch.load(header.path, map_location="cpu", weights_only=True)
    return {name: content["state_dict"][name] for name in names}
