"""Hosts by name: the built-in one, the official ones, or a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrofit.errors import UnsupportedHostError
from retrofit.files.checkpoint import Checkpoint, read_checkpoint
from retrofit.files.seal import REPORT, require_sealed_rest
from retrofit.hosts.build import as_tabpfn_reads, build, parsed_config, refusing
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

    ``mini`` and its kin are built-in stand-ins (not Prior Labs' models); a version, ``default``,
    or a file name of Prior Labs goes through tabpfn's own cache, download and licence
    flow; anything else is a path. Nothing is created or contacted for a path.

    Raises:
        HostNotFoundError: no such host here, and it cannot be fetched.
        CheckpointError: the file is damaged, foreign, or not what it claims to be.
        UnsupportedHostError: the file holds a model that oretro cannot patch.
    """
    path = locate(name)
    if path is None:
        path = download(str(name))
    checkpoint = as_tabpfn_reads(read_checkpoint(path))
    _generation(checkpoint)
    built = build(checkpoint)
    host = Host(
        name=str(name),
        sha256=checkpoint.sha256,
        path=path,
        dtypes=checkpoint.dtypes,
        criterion_state=checkpoint.criterion_state,
        note=checkpoint.note,
        **built._asdict(),
    )
    if not is_patched_name(checkpoint.architecture_name):
        return host
    with refusing(checkpoint, f"its report ({REPORT}) is not one that this oretro writes"):
        require_sealed_rest(checkpoint.fields, checkpoint.tensors)
        report = PatchReport.from_dict(checkpoint.fields[REPORT])
    fields = {**vars(host), "sha256": report.config.host_sha256, "report": report}
    return Patched(**fields)


def describe_host(name: str | os.PathLike[str]) -> HostDescription:
    """What is known of a host without building it, or fetching anything.

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
    checkpoint = as_tabpfn_reads(read_checkpoint(path))
    generation = _generation(checkpoint)
    return HostDescription(
        name=str(name),
        generation=generation,
        architecture_config=parsed_config(checkpoint),
        path=path,
        sha256=checkpoint.sha256,
        patched=is_patched_name(checkpoint.architecture_name),
        note=checkpoint.note,
    )


def _generation(checkpoint: Checkpoint) -> Generation:
    """The generation of a checkpoint that holds a regressor, and what it is to be built with."""
    try:
        generation = generation_of(checkpoint.architecture_name)
    except UnsupportedHostError as error:
        raise UnsupportedHostError(f"{checkpoint.path}: {error}") from error
    # Read now, so that a missing field is refused before anything is built.
    config, _ = checkpoint.config, checkpoint.inference_config
    with refusing(checkpoint, "its configuration does not fit its architecture"):
        reason = generation.refusal(config)
    if reason:
        msg = f"{checkpoint.path} {reason}; oretro patches regressors"
        raise UnsupportedHostError(msg)
    return generation
