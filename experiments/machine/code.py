"""The code that decides a case's numbers: found by its imports, hashed by what it means."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("retrofit", "experiments")
STARTS = ("experiments.sweep.run_case", "experiments.sweep.variants", "experiments.machine.threads")
"""What runs a case, builds its models, and pins its threads. How tables and splits come about is
not among it, for their own hashes are part of a result's key."""
_ROOT = Path(__file__).parents[2]


@cache
def code_sha256(root: Path = _ROOT) -> str:
    """Hash of the modules under ``root`` that running a case executes.

    Comments, docstrings and layout do not enter it; names and order of the modules do.
    """
    digest = hashlib.sha256()
    for name, tree in sorted(executed_modules(root).items()):
        _strip_docstrings(tree)
        digest.update(f"{name}\0{ast.dump(tree)}\0".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def executed_modules(root: Path = _ROOT) -> dict[str, ast.Module]:
    """The closure of ``STARTS`` under imports within our packages, as syntax trees.

    Imports anywhere in a module count, but for those under ``TYPE_CHECKING``; so does a text that
    is the name of a module, for it may be imported by it.
    """
    paths = _modules(root)
    found: dict[str, ast.Module] = {}
    waiting = list(STARTS)
    while waiting:
        name = waiting.pop()
        if name in found or name not in paths:
            continue
        found[name] = ast.parse(paths[name].read_bytes())
        waiting += [name.rpartition(".")[0], *_named(found[name])]
    return found


def _modules(root: Path) -> dict[str, Path]:
    paths = {}
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def _named(tree: ast.AST) -> Iterator[str]:
    """Names that may be modules which a tree imports when it runs."""
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                yield from (other, *_executed(other))
            continue
        yield node
        yield from _executed(node)


def _strip_docstrings(tree: ast.AST) -> None:
    """Take out every text that stands as a statement: docstrings, also those of attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)]  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
