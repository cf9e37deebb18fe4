"""JSON files of our own: one writer and one reader, which takes whatever the writer writes."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

from experiments.io.text import shortened, visible

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 256 * 2**20
_REASON_LENGTH = 200


class UnreadableJsonError(ValueError):
    """A file holds no JSON object of ours; the message says why, in a few words."""


def json_text(content: dict[str, Any]) -> str:
    """The object as JSON in ASCII, ended by a line feed.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file.

    Raises:
        FileNotFoundError: there is none.
        UnreadableJsonError: it cannot be read, is damaged, or holds something else.
    """
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableJsonError("no regular file")
        if facts.st_size > MAX_BYTES:
            raise UnreadableJsonError(f"larger than {MAX_BYTES // 2**20} MiB")
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    except (FileNotFoundError, UnreadableJsonError):
        raise
    except RecursionError:
        raise UnreadableJsonError("nested too deeply") from None
    except (OSError, ValueError) as error:
        raise UnreadableJsonError(shortened(visible(error), _REASON_LENGTH)) from None
    if not isinstance(content, dict):
        raise UnreadableJsonError(f"a {type(content).__name__} where an object is expected")
    return content


def _refuse_constant(name: str) -> None:
    raise UnreadableJsonError(f"{name} is no number of JSON")
