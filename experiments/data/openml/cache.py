"""The openml client's cache as it lies on disk: what is there, whether it is whole, a copy of it.

Reads only. Pickles are never looked at: they run code, and they bind to the pandas that wrote them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.errors import DamagedCacheError, DataError, DataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASK_XML = "task.xml"
SPLITS = "datasplits.arff"
DESCRIPTION = "description.xml"
QUALITIES = "qualities.xml"
ARFF = "dataset.arff"
_REGRESSION = "2"


@dataclass(frozen=True)
class CachedTask:
    """Files of one task below ``folder``, the cache folder of one server."""

    folder: Path
    task_id: int

    @property
    def task_folder(self) -> Path:
        """Where ``task.xml`` and the splits lie."""
        return self.folder / "tasks" / str(self.task_id)

    @property
    def dataset_id(self) -> int | None:
        """Id of the task's data set; None while ``task.xml`` is not there.

        Raises:
            DamagedCacheError: ``task.xml`` is damaged.
        """
        path = self.task_folder / TASK_XML
        if not path.is_file():
            return None
        text = _text(_parse(path), "data_set_id")
        if text is None or not text.isdigit():
            raise damaged(path, "it names no data set")
        return int(text)

    def require_regression(self) -> None:
        """Make sure that the task is one that can be scored.

        Raises:
            DataError: it is of another type.
            DamagedCacheError: ``task.xml`` is damaged.
        """
        task = _parse(self.task_folder / TASK_XML)
        if _text(task, "task_type_id") != _REGRESSION:
            raise DataError(
                f"OpenML task {self.task_id} is '{_text(task, 'task_type')}'; only supervised "
                "regression can be scored"
            )

    def splits_url(self) -> str:
        """Where the server keeps the splits.

        Raises:
            DamagedCacheError: ``task.xml`` is damaged.
        """
        return _text(_parse(self.task_folder / TASK_XML), "data_splits_url") or ""

    @property
    def dataset_folder(self) -> Path | None:
        """Where the description and the data lie."""
        number = self.dataset_id
        return None if number is None else self.folder / "datasets" / str(number)

    def data_file(self) -> Path | None:
        """The file to read: ARFF, which has a checksum, before parquet, which has none.

        A sparse ARFF is passed over for parquet, which holds every number in full.
        """
        folder, number = self.dataset_folder, self.dataset_id
        if folder is None or not (folder / DESCRIPTION).is_file():
            return None
        arff, parquet = folder / ARFF, folder / f"dataset_{number}.pq"
        facts = self.description()
        readable = [arff] if arff.is_file() else []
        if parquet.is_file() and facts.parquet_url:
            readable.insert(0 if facts.sparse else len(readable), parquet)
        return readable[0] if readable else None

    def missing(self, *, splits: bool) -> list[str]:
        """Names of files without which the task cannot be read."""
        found = (
            [] if (self.task_folder / TASK_XML).is_file() else [f"tasks/{self.task_id}/task.xml"]
        )
        folder = self.dataset_folder
        if folder is None:
            found.append("the data")
        elif not (folder / DESCRIPTION).is_file():
            found.append(f"datasets/{folder.name}/{DESCRIPTION}")
        elif self.data_file() is None:
            found.append(f"datasets/{folder.name}/{ARFF}")
        if splits and not (self.task_folder / SPLITS).is_file():
            found.append(f"tasks/{self.task_id}/{SPLITS}")
        return found

    def files(self) -> Iterator[Path]:
        """Every file that a reader may need."""
        folder = self.dataset_folder
        candidates = [self.task_folder / TASK_XML, self.task_folder / SPLITS]
        if folder is not None:
            names = (DESCRIPTION, QUALITIES, ARFF, f"dataset_{folder.name}.pq")
            candidates += [folder / name for name in names]
        yield from (path for path in candidates if path.is_file())

    def copy_to(self, folder: Path) -> CachedTask:
        """Copy the files, without pickles, into another cache folder.

        The copy holds one data file alone, the one that ``data_file`` names.
        """
        chosen = self.data_file()
        for path in self.files():
            is_data = path.name == ARFF or path.suffix == ".pq"
            if is_data and path != chosen:
                continue
            target = folder / path.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return CachedTask(folder, self.task_id)

    def description(self) -> Description:
        """What the server says about the data set.

        Raises:
            DamagedCacheError: ``description.xml`` is damaged.
        """
        assert self.dataset_folder is not None
        path = self.dataset_folder / DESCRIPTION
        root = _parse(path)
        if _local(root.tag) != "data_set_description":
            raise damaged(path, f"it holds <{_local(root.tag)}>, not a description")
        return Description(
            name=_text(root, "name") or f"data set {self.dataset_id}",
            licence=_text(root, "licence") or "not stated",
            md5=(_text(root, "md5_checksum") or "").lower(),
            sparse=(_text(root, "format") or "").lower() == "sparse_arff",
            url=_text(root, "url") or "",
            parquet_url=_text(root, "parquet_url") or "",
            active=(_text(root, "status") or "active") == "active",
        )

    def expected_rows(self) -> int | None:
        """``NumberOfInstances`` of the server, where the qualities are in the cache."""
        folder = self.dataset_folder
        path = None if folder is None else folder / QUALITIES
        if path is None or not path.is_file():
            return None
        for quality in _parse(path):
            if _text(quality, "name") == "NumberOfInstances":
                try:
                    return int(float(_text(quality, "value") or ""))
                except (ValueError, OverflowError):
                    return None
        return None

    def check_md5(self) -> None:
        """Compare the ARFF with the server's checksum, where there is one.

        Raises:
            DamagedCacheError: the file is not the one that the server describes.
        """
        path = self.data_file()
        wanted = self.description().md5
        if path is None or path.name != ARFF or not wanted:
            return
        content = path.read_bytes()
        # The client writes text, so that on Windows line ends are not the server's.
        as_sent = (content, content.replace(os.linesep.encode(), b"\n"))
        found = [hashlib.md5(part, usedforsecurity=False).hexdigest() for part in as_sent]
        if wanted not in found:
            raise damaged(path, f"its md5 is {found[0]}, the server's is {wanted}")


@dataclass(frozen=True)
class Description:
    """The part of ``description.xml`` that oretro uses."""

    name: str
    licence: str
    md5: str
    sparse: bool
    url: str
    parquet_url: str
    active: bool


def require_answer(content: bytes, root: str) -> None:
    """Make sure that an answer of the API is the one that was asked for.

    Raises:
        DataUnavailableError: it is not.
    """
    try:
        found = _local(ElementTree.fromstring(content).tag)
    except ElementTree.ParseError:
        found = ""
    if found != root:
        raise DataUnavailableError(
            "the answer is not OpenML's (does a proxy or a log-in page answer in its place?)"
        )


def error_message(content: bytes) -> str:
    """What the API says went wrong; empty where the content is no such answer."""
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return ""
    return (_text(root, "message") or "") if _local(root.tag) == "error" else ""


def damaged(path: Path, reason: str) -> DamagedCacheError:
    """The error for a cached file that cannot be trusted."""
    return DamagedCacheError(
        f"{path} is corrupt: {reason}; delete it and run 'oretro data fetch CONFIG' on a machine "
        "with a network",
        reason,
    )


def _parse(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(path.read_bytes())
    except ElementTree.ParseError as error:
        raise damaged(path, f"not XML ({error})") from None


def _text(root: ElementTree.Element, name: str) -> str | None:
    for element in root.iter():
        if _local(element.tag) == name and element.text is not None:
            return element.text.strip()
    return None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
