"""Hosts by name: the built-in one, the official ones, or a file."""

from __future__ import annotations

import copy
import os
import socket
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import safe_open
from tabpfn.architectures import tabpfn_v3
from tabpfn.constants import ModelVersion
from tabpfn.model_loading import ModelSource, download_model, get_cache_dir, load_model

from retrofit.errors import CheckpointError, HostNotFoundError, UnsupportedHostError
from retrofit.files.checkpoint import (
    PATCHED_ARCHITECTURE,
    REPORT,
    STOCK_ARCHITECTURE,
    Header,
    read_header,
    verify_patched,
)
from retrofit.files.digest import file_sha256
from retrofit.hosts import architecture
from retrofit.hosts.clone import alias
from retrofit.hosts.host import Host, HostDescription
from retrofit.hosts.report import PatchReport
from retrofit.patching.patch import Patched

MINI = "mini"
_MINI_FILE = "mini-host-v3-regressor.safetensors"
_CONNECT_SECONDS = 3.0
_DOWNLOAD_SERVER = ("huggingface.co", 443)


def official_names() -> list[str]:
    """Names under which Prior Labs' own v3 regressors are known: ``v3`` and the file names."""
    return ["v3", *ModelSource.get_regressor_v3().filenames]


def load_host(name: str | os.PathLike[str]) -> Host:
    """Load a stock host, or a patched one (then a ``Patched``), by name.

    ``mini`` is the built-in stand-in (not Prior Labs' model); ``v3`` or a file name of Prior Labs
    goes through tabpfn's own cache, download and licence flow; anything else is a path. Nothing
    is created or contacted for a path.

    Raises:
        HostNotFoundError: no such host here, and it cannot be fetched.
        CheckpointError: the file is damaged, foreign, or not what it claims to be.
        UnsupportedHostError: the file holds a model that oretro cannot patch.
    """
    path = _locate(name)
    if path is None:
        path = _download(str(name))
    header = read_header(path)
    _require_v3(header)
    patched = header.architecture_name == PATCHED_ARCHITECTURE
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
    path = _locate(name)
    if path is None:
        return HostDescription(
            name=str(name),
            architecture_config=tabpfn_v3.TabPFNV3Config(max_num_classes=0, num_buckets=5000),
            path=None,
            sha256="",
            note=(
                "not on this machine: described by the default configuration of the installed "
                "tabpfn, which the released file may differ from"
            ),
        )
    header = read_header(path)
    _require_v3(header)
    patched = header.architecture_name == PATCHED_ARCHITECTURE
    module = architecture if patched else tabpfn_v3
    config, _ = module.parse_config(dict(header.config))
    return HostDescription(str(name), config, path, file_sha256(path), patched=patched)


def _locate(name: str | os.PathLike[str]) -> Path | None:
    """The file behind a name; None for an official host that is not in tabpfn's cache."""
    if name == MINI:
        return Path(str(files("retrofit") / "assets" / _MINI_FILE))
    path = Path(name).expanduser()
    # A file may well have an official file's name; "v3" means the same in every folder.
    if path.is_file() and name != "v3":
        return path
    if str(name) in official_names():
        source = ModelSource.get_regressor_v3()
        file_name = source.default_filename if name == "v3" else str(name)
        cached = get_cache_dir() / file_name
        return cached if cached.is_file() else None
    kind = "a folder, not a checkpoint file" if path.is_dir() else "not a file"
    msg = (
        f"host {str(name)!r}: {path.absolute()} is {kind}; give a path to a .safetensors or .ckpt "
        f"file, {MINI!r} for the built-in host, or an official name: {', '.join(official_names())}"
    )
    raise HostNotFoundError(msg)


def _download(name: str) -> Path:
    """Fetch an official host through tabpfn's own download and licence flow."""
    source = ModelSource.get_regressor_v3()
    target = get_cache_dir() / (source.default_filename if name == "v3" else name)
    advice = (
        f"fetch it on a machine with network (accept the licence at {source.repo_id} on Hugging "
        f"Face, then call retrofit.load_host({name!r}) there), copy "
        f"{target.name} to {target.parent}, or use --host mini, which is built in"
    )
    if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0") or not _reachable():
        msg = f"host {name!r} is not in {target.parent} and there is no network: {advice}"
        raise HostNotFoundError(msg)
    outcome = download_model(
        target, version=ModelVersion.V3, which="regressor", model_name=target.name
    )
    if outcome != "ok":
        msg = f"host {name!r} could not be fetched: {outcome[0]}\n{advice}"
        raise HostNotFoundError(msg) from outcome[0]
    return target


def _reachable() -> bool:
    """Whether a download can work; behind a proxy or a mirror only the attempt itself can tell."""
    detours = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HF_ENDPOINT")
    return any(os.environ.get(name) for name in detours) or _server_answers()


def _server_answers() -> bool:
    """Whether the download server can be reached; a hanging name server counts as no."""
    answered = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection(_DOWNLOAD_SERVER, timeout=_CONNECT_SECONDS).close()
        except OSError:
            return
        answered.set()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(2 * _CONNECT_SECONDS)
    return answered.is_set()


def _require_v3(header: Header) -> None:
    known = (STOCK_ARCHITECTURE, PATCHED_ARCHITECTURE)
    if header.architecture_name not in known:
        msg = (
            f"{header.path} holds the architecture {header.architecture_name!r}; this version of "
            f"oretro patches {STOCK_ARCHITECTURE} and reads {PATCHED_ARCHITECTURE}"
        )
        raise UnsupportedHostError(msg)
    # Read now, so that a missing field is refused before any weight is.
    config, _ = header.config, header.inference_config
    if config.get("max_num_classes", -1) >= 2:
        msg = f"{header.path} is a classifier; oretro patches regressors"
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
