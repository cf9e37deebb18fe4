"""The rules of the rooms, read from the imports: which way they point, and what they keep out."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("retrofit", "experiments")
MOST_LINES = 400
MOST_AT_THE_TOP = {"retrofit": 5, "experiments": 3}


@dataclass
class Module:
    """One file: whom it imports as it is loaded, and whom anywhere outside of type checking."""

    name: str
    path: Path
    loading: set[str] = field(default_factory=set)
    anywhere: set[str] = field(default_factory=set)


def read(root: Path, *packages: str) -> dict[str, Module]:
    """Every module of the packages under ``root``; imports of own modules by their full name."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path)
    for module in found.values():
        tree = ast.parse(module.path.read_text(encoding="utf-8"))
        _collect(tree.body, module, found, at_load=True)
    return found


def _collect(body: list[ast.stmt], module: Module, known: dict[str, Module], at_load: bool) -> None:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = set(_imported(node, known))
            module.anywhere |= names
            if at_load:
                module.loading |= names
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            _collect(node.orelse, module, known, at_load)
            continue
        for part in ("body", "orelse", "finalbody"):
            _collect(getattr(node, part, []), module, known, at_load and not later)
        for handler in getattr(node, "handlers", []):
            _collect(handler.body, module, known, at_load and not later)


def _imported(node: ast.Import | ast.ImportFrom, known: dict[str, Module]) -> list[str]:
    """``from a.b import c`` is the module ``a.b.c`` where there is one, else ``a.b``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, "relative imports are not followed"
    whole = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if name in known else str(node.module) for name in whole]


def circle(modules: dict[str, Module]) -> list[str]:
    """Modules that load each other, in turn; empty where there are none."""
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        done.add(name)
        for other in sorted(modules[name].loading & modules.keys()):
            if found := walk(other, [*trail, name]):
                return found
        return []

    return next((found for name in modules if (found := walk(name, []))), [])


def reached(modules: dict[str, Module], start: str) -> set[str]:
    """Foreign packages that a module imports anywhere, or that its own imports load.

    Loading a module loads the packages that it lies in.
    """
    seen: set[str] = set()
    names = {start, *modules[start].anywhere}
    while queue := [name for name in with_parents(names) if name in modules and name not in seen]:
        seen.update(queue)
        for name in queue:
            names |= modules[name].loading
    return {name.partition(".")[0] for name in names if name not in modules}


def with_parents(names: set[str]) -> set[str]:
    """The modules, and the packages that they lie in."""
    parts = [name.split(".") for name in names]
    return {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}


@cache
def ours() -> dict[str, Module]:
    return read(ROOT, *PACKAGES)


def of(*rooms: str) -> list[str]:
    """Modules of these rooms."""
    names = [
        name
        for name in ours()
        if any(name == room or name.startswith(f"{room}.") for room in rooms)
    ]
    assert names, rooms
    return names


def test_no_module_loads_itself_by_a_detour() -> None:
    assert circle(ours()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_few_modules_stand_outside_a_room(package: str) -> None:
    top = [path.name for path in (ROOT / package).glob("*.py")]
    assert len(top) <= MOST_AT_THE_TOP[package], top


def test_no_file_is_long() -> None:
    lengths = {
        m.name: len(m.path.read_text(encoding="utf-8").splitlines()) for m in ours().values()
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_the_library_does_not_know_the_experiments() -> None:
    guilty = {name: ours()[name].anywhere for name in of("retrofit")}
    assert not [n for n, names in guilty.items() if any(x.startswith("experiments") for x in names)]


@pytest.mark.parametrize(
    ("rooms", "kept_out"),
    [
        (("experiments.report",), {"torch", "tabpfn", "sklearn", "openml"}),
        (("retrofit.ops", "retrofit.files"), {"tabpfn"}),
        (("retrofit.config",), {"tabpfn", "torch"}),
    ],
    ids=lambda value: " ".join(sorted(value)),
)
def test_rooms_keep_out_what_is_heavy(rooms: tuple[str, ...], kept_out: set[str]) -> None:
    found = {name: reached(ours(), name) & kept_out for name in of(*rooms)}
    assert {name: names for name, names in found.items() if names} == {}


def test_operators_need_torch_alone() -> None:
    allowed = {"torch", *sys.stdlib_module_names}
    strangers = {
        name: sorted(
            other
            for other in ours()[name].anywhere
            if other.partition(".")[0] not in allowed
            and not other.startswith(("retrofit.ops", "retrofit.words"))
        )
        for name in of("retrofit.ops")
    }
    assert {name: others for name, others in strangers.items() if others} == {}


def test_the_walk_sees_circles_and_what_is_reached(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    (house / "__init__.py").write_text("")
    (house / "a.py").write_text("from house import b\n")
    (house / "b.py").write_text(
        "from typing import TYPE_CHECKING\nimport house.c\nif TYPE_CHECKING:\n    import house.a\n"
    )
    (house / "c.py").write_text("try:\n    import torch\nexcept ImportError:\n    torch = None\n")
    (house / "d.py").write_text("def late():\n    from house.a import b\n")
    modules = read(tmp_path, "house")
    assert circle(modules) == []
    assert reached(modules, "house.a") == {"torch", "typing"}
    assert reached(modules, "house.d") == {"torch", "typing"}
    (house / "__init__.py").write_text("import numpy\n")
    assert reached(read(tmp_path, "house"), "house.a") == {"numpy", "torch", "typing"}
    assert modules["house.d"].loading == set()
    (house / "c.py").write_text("from house.a import b\n")
    assert circle(read(tmp_path, "house")) == ["house.a", "house.b", "house.c", "house.a"]


def test_generations_are_named_in_their_rooms_alone() -> None:
    """And in what the command line says, and the table of built-in hosts."""
    named = {
        module.path.relative_to(ROOT).as_posix()
        for module in ours().values()
        if re.search("v3", module.path.read_text(encoding="utf-8"), re.IGNORECASE)
    }
    allowed = re.compile(r"retrofit/(hosts/.*|words)\.py|experiments/cli/(app|\w+_command)\.py")
    assert {path for path in named if not allowed.fullmatch(path)} == set()
    assert "retrofit/hosts/registry.py" in named
