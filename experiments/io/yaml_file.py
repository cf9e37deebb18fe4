"""Reading a configuration file: fields with values, each of them once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from experiments.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class _StrictLoader(yaml.SafeLoader):
    """YAML without its silent trap: of two equal keys, plain YAML keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise yaml.YAMLError(f"field '{key}' stands twice in the mapping at line {line}")
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The fields of a YAML file.

    Raises:
        ConfigError: no such file, not YAML, a field twice, or something other than fields.
    """
    try:
        with path.open(encoding="utf-8") as file:
            content = yaml.load(file, Loader=_StrictLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(content, dict):
        found = "nothing" if content is None else type(content).__name__
        raise ConfigError(f"{path}: expected fields with values, found {found}")
    return content
