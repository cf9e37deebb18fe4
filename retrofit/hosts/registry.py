"""The TabPFN generations that oretro patches, found by the name of their architecture.

Imports neither torch nor tabpfn: an adapter is imported when its generation is first asked for.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from retrofit.errors import UnsupportedHostError, brief

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from torch import nn

    from retrofit.hosts.generation import Generation

ADAPTERS: dict[str, str] = {
    "tabpfn_v2": "retrofit.hosts.v2.adapter",
    "tabpfn_v2_5": "retrofit.hosts.v2_5.adapter",
    "tabpfn_v2_6": "retrofit.hosts.v2_6.adapter",
    "tabpfn_v3": "retrofit.hosts.v3.adapter",
    "tabpfn_v3_5": "retrofit.hosts.v3_5.adapter",
}
"""Module with the ``GENERATION`` of each architecture, by tabpfn's own name for it."""

_PREFIX = "oretro_"
_HINT = ": import retrofit before tabpfn loads it"
"""Part of the name: where tabpfn does not know it, the name is all that its KeyError says."""


def patched_name(architecture: str) -> str:
    """Name under which tabpfn knows the patched form of a stock architecture."""
    return f"{_PREFIX}{architecture}{_HINT}"


def is_patched_name(architecture: str) -> bool:
    """Whether an architecture's name is that of a patched one."""
    return architecture.startswith(_PREFIX)


@cache
def generation_of(architecture: str) -> Generation:
    """The generation of an architecture, stock or patched.

    Raises:
        UnsupportedHostError: oretro does not patch it.
    """
    stock = architecture.removeprefix(_PREFIX).removesuffix(_HINT)
    if stock not in ADAPTERS:
        msg = (
            f"the architecture {brief(repr(architecture))} is none that oretro patches: "
            f"{', '.join(ADAPTERS)}"
        )
        raise UnsupportedHostError(msg)
    found: Generation = import_module(ADAPTERS[stock]).GENERATION
    return found


def generations() -> Iterator[Generation]:
    """Every generation, oldest first."""
    for architecture in ADAPTERS:
        yield generation_of(architecture)


def generation_of_model(model: nn.Module) -> Generation:
    """The generation that a model belongs to, stock or patched.

    Raises:
        UnsupportedHostError: it is no model that oretro patches.
    """
    for generation in generations():
        if isinstance(model, generation.model_class):
            return generation
    known = ", ".join(generation.model_class.__name__ for generation in generations())
    msg = (
        f"expected one of {known}, got {type(model).__name__}; pass the module itself (for an "
        "estimator: the ModelSpecs or file that it was made from)"
    )
    raise UnsupportedHostError(msg)


def register() -> None:
    """Make tabpfn know the patched architectures, now or once it is imported; safe to call again.

    tabpfn is not imported for it, which takes seconds.
    """
    if "tabpfn.architectures" in sys.modules:
        known = sys.modules["tabpfn.architectures"].ARCHITECTURES
        for architecture in ADAPTERS:
            if patched_name(architecture) not in known:
                known[patched_name(architecture)] = _Architecture(architecture)
    elif not any(isinstance(finder, _AfterTabpfn) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterTabpfn())


class _Architecture:
    """A patched architecture as tabpfn's protocol wants it; its adapter is imported on demand."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture

    def parse_config(self, config: dict[str, Any]) -> Any:
        generation = generation_of(self._architecture)
        parsed = generation.parse_config(config)
        generation.require_whole_file(sys._getframe(1))
        return parsed

    def get_architecture(self, config: Any) -> Any:
        return generation_of(self._architecture).get_architecture(config)


class _AfterTabpfn(MetaPathFinder):
    """Waits for the import of ``tabpfn.architectures`` and registers after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "tabpfn.architectures":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            register()

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
