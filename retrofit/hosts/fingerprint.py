"""Which upstream methods the twins replace or rely on, and the sources they were written against.

tabpfn moves fast: a twin that overrides a changed method would silently compute something else.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import textwrap
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from retrofit.errors import UnsupportedHostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


CHECKED = ("9.2.0",)
"""Versions of tabpfn whose sources the twins were written against."""


def fingerprint(function: Callable[..., Any]) -> str:
    """First 16 hex digits of the sha256 of a function's source, free of its indentation.

    Raises:
        OSError: the source is not available.
    """
    source = textwrap.dedent(inspect.getsource(function)).strip()
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def resolve(qualified_name: str) -> Callable[..., Any]:
    """The function behind ``package.module:Class.method``.

    Raises:
        ImportError, AttributeError: there is no such function.
    """
    module_name, _, path = qualified_name.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = inspect.getattr_static(found, part)
    unwrapped = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    function: Callable[..., Any] = inspect.unwrap(unwrapped)
    return function


def changed(known: Mapping[str, frozenset[str]]) -> list[str]:
    """Names in ``known`` whose installed source has none of the listed fingerprints."""
    return [name for name, prints in known.items() if _installed(name) not in prints]


def require_known(known: Mapping[str, frozenset[str]]) -> None:
    """Refuse an installed tabpfn whose replaced methods are not the ones we wrote twins for.

    Raises:
        UnsupportedHostError: names every unknown method and the installed version.
    """
    reason = unsupported(known)
    if reason:
        raise UnsupportedHostError(reason)


def unsupported(known: Mapping[str, frozenset[str]]) -> str:
    """Why the installed tabpfn cannot be patched, and the way out; empty if it can."""
    unknown = changed(known)
    if not unknown:
        return ""
    return (
        f"tabpfn {version('tabpfn')} has another {', '.join(unknown)} than the versions that "
        f"oretro was checked against ({', '.join(CHECKED)}), so its twins might compute something "
        f"else; install one of those: pip install 'tabpfn=={CHECKED[-1]}'"
    )


@cache
def _installed(qualified_name: str) -> str | None:
    try:
        return fingerprint(resolve(qualified_name))
    except (ImportError, AttributeError, OSError, TypeError):
        return None
