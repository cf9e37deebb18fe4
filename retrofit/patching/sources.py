"""Where a host's name leads: a built-in file, Prior Labs' releases through tabpfn, or a path."""

from __future__ import annotations

import os
import socket
import threading
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from tabpfn.model_loading import ModelType, _get_model_source, download_model, get_cache_dir
from tabpfn.settings import settings

from retrofit.errors import HostNotFoundError
from retrofit.files.digest import file_sha256
from retrofit.files.paths import expand_home
from retrofit.hosts.registry import generations
from retrofit.words import BUILT_IN_HOSTS

if TYPE_CHECKING:
    from tabpfn.constants import ModelVersion
    from tabpfn.model_loading import ModelSource

    from retrofit.hosts.generation import Generation

DEFAULT_NAME = "default"
"""The release that the installed tabpfn would take by itself."""
_CONNECT_SECONDS = 3.0
_DOWNLOAD_SERVER = ("huggingface.co", 443)


def official_names() -> list[str]:
    """Names of Prior Labs' regressors: ``default``, the versions, and tabpfn's file names.

    Without ``default`` where tabpfn would take a release that oretro does not patch.
    """
    versions = [version.value for version, _ in _offered()]
    return [
        *([DEFAULT_NAME] if _release(DEFAULT_NAME) else []),
        *versions,
        *(name for _, source in _offered() for name in source.filenames),
    ]


def locate(name: str | os.PathLike[str]) -> Path | None:
    """The file behind a name; None for an official host that is not in tabpfn's cache.

    Raises:
        HostNotFoundError: no file and no known name.
    """
    if str(name) in BUILT_IN_HOSTS:
        return _built_in_path(str(name))
    path = expand_home(name)
    release = _release(str(name))
    # A file may well have a released file's name; a version's means the same in every folder.
    if path.is_file() and (release is None or str(name) == release[1]):
        return path
    if release is not None:
        cached: Path = get_cache_dir() / release[1]
        return cached if cached.is_file() else None
    kind = "a folder, not a checkpoint file" if path.is_dir() else "not a file"
    built_in, official = (", ".join(names) for names in (BUILT_IN_HOSTS, official_names()))
    msg = (
        f"host {str(name)!r}: {path.absolute()} is {kind}; give a path to a .safetensors or .ckpt "
        f"file, a built-in host ({built_in}), or an official name: {official}"
    )
    raise HostNotFoundError(msg)


def built_in_name(sha256: str) -> str | None:
    """Name of the built-in host whose file has this hash; None if it is none of them."""
    return _built_in_hashes().get(sha256)


@cache
def _built_in_hashes() -> dict[str, str]:
    return {file_sha256(_built_in_path(name)): name for name in reversed(BUILT_IN_HOSTS)}


def _built_in_path(name: str) -> Path:
    return Path(str(files("retrofit") / "assets" / BUILT_IN_HOSTS[name]))


def released_generation(name: str) -> Generation:
    """The generation of an official name."""
    release = _release(name)
    assert release is not None, "locate() has refused other names"
    version, _ = release
    return next(known for known in generations() if version in known.versions)


def download(name: str) -> Path:
    """Fetch an official host through tabpfn's own download and licence flow.

    Raises:
        HostNotFoundError: there is no network, or tabpfn could not fetch it; with the way out.
    """
    release = _release(name)
    assert release is not None, "locate() has refused other names"
    version, file_name = release
    target: Path = get_cache_dir() / file_name
    repository = _get_model_source(version, ModelType.REGRESSOR).repo_id
    advice = (
        f"fetch it on a machine with network (accept the licence at {repository} on Hugging "
        f"Face, then call retrofit.load_host({name!r}) there), copy "
        f"{target.name} to {target.parent}, or use --host mini, which is built in"
    )
    if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0") or not _reachable():
        msg = f"host {name!r} is not in {target.parent} and there is no network: {advice}"
        raise HostNotFoundError(msg)
    outcome = download_model(target, version=version, which="regressor", model_name=target.name)
    if outcome != "ok":
        msg = f"host {name!r} could not be fetched: {outcome[0]}\n{advice}"
        raise HostNotFoundError(msg) from outcome[0]
    return target


def _offered() -> list[tuple[ModelVersion, ModelSource]]:
    """Releases of the generations that oretro patches, as the installed tabpfn lists them."""
    return [
        (version, _get_model_source(version, ModelType.REGRESSOR))
        for generation in generations()
        for version in generation.versions
    ]


def _release(name: str) -> tuple[ModelVersion, str] | None:
    """Version and file name of an official name; None if it is none."""
    wanted = settings.tabpfn.model_version.value if name == DEFAULT_NAME else name
    for version, source in _offered():
        if wanted == version.value:
            return version, source.default_filename
        if wanted in source.filenames:
            return version, wanted
    return None


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
