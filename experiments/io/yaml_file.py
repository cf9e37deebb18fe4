"""Configuration files: plain YAML of texts, numbers, lists and mappings, and nothing else of it.

Tags, anchors and dates are refused or read as text: each is a way for a file to mean something that
its reader does not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from experiments.errors import ConfigError
from experiments.io.text import shortened, visible

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 2**20
MAX_DEPTH = 30
_REASON_LENGTH = 500
_PLAIN_TAGS = ("bool", "float", "int", "null")


class _Refused(yaml.YAMLError):
    """Valid YAML of a kind that is not read."""


class _PlainLoader(yaml.SafeLoader):
    """Reads mappings of texts to values; a date is a text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise _Refused(f"field {_shown(key)} at line {line} is not a text: quote it")
            if key in seen:
                raise _Refused(
                    f"field '{key}' stands twice in the mapping at line {node.start_mark.line + 1}"
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _PLAIN_TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the fields of a configuration file.

    Raises:
        ConfigError: it cannot be read, is not plain YAML, or holds something else than fields; the
            message names the file and the line.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES // 2**20} MiB, no configuration is")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: {error.reason}; save it as UTF-8") from None
    try:
        _refuse_events(text)
        content = yaml.load(text, Loader=_PlainLoader)
    except Exception as error:  # whatever the parser stumbles over is a fault of the file
        reason = shortened(visible(error), _REASON_LENGTH)
        raise ConfigError(f"{path}: not valid YAML: {reason}") from None
    if not isinstance(content, dict):
        found = "nothing" if content is None else type(content).__name__
        raise ConfigError(f"{path}: expected fields with values, found {found}")
    return content


def _refuse_events(text: str) -> None:
    """Look at the file as it stands, before any alias could multiply or any level nest further."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if getattr(event, "anchor", None) is not None:
            raise _Refused(f"anchor or alias at line {line}: write the value out")
        if (tag := getattr(event, "tag", None)) is not None:
            raise _Refused(f"tag {_shown(tag)} at line {line}: leave it out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _Refused(f"nested more than {MAX_DEPTH} deep at line {line}")


def _shown(value: object) -> str:
    return shortened(repr(value), 80)
