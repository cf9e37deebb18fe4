"""Filling the openml client's cache: download aside, check, then add what is missing.

Nothing that is already in the cache is replaced or removed, whatever happens on the way.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from experiments.data.openml.cache import (
    ARFF,
    DESCRIPTION,
    QUALITIES,
    SPLITS,
    TASK_XML,
    CachedTask,
    error_message,
    require_answer,
)
from experiments.data.openml.client import MaskingFilter, cache_folder, import_openml, logger, mask
from experiments.data.openml.network import host_and_port
from experiments.data.openml.read import TaskData, read_task
from experiments.errors import ChecksumError, DamagedCacheError, DataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.data.settings import LoadSettings, OpenMLSettings

_FAULT = 400


def load_task(task_id: int, settings: LoadSettings) -> TaskData:
    """Read a task from the cache, after downloading what is not there.

    Raises:
        DataUnavailableError: files are missing and may not or cannot be downloaded.
        ChecksumError: the server sent something else than it says.
        DataError: a file is damaged, or the task cannot be used.
    """
    cached = cached_task(task_id, settings.openml)
    missing = cached.missing(splits=settings.official_splits)
    if missing:
        reason = "offline mode is on" if settings.openml.offline else ""
        if not reason:
            try:
                _download(cached, settings)
            except DataUnavailableError as error:
                reason = str(error)
        if reason:
            raise DataUnavailableError(
                f"OpenML task {task_id} is not complete in the cache {cached.folder} (missing: "
                f"{', '.join(missing)}) and cannot be downloaded: {reason}; on a machine with a "
                "network run 'oretro data fetch CONFIG --cache DIR', copy DIR here and pass it as "
                "--cache DIR"
            )
    return read_task(cached, splits=settings.official_splits)


def cached_task(task_id: int, settings: OpenMLSettings) -> CachedTask:
    """The task's place in the cache of the configured server.

    Raises:
        DataUnavailableError: the client cannot start.
    """
    return CachedTask(cache_folder(_root(settings), _server(settings)), task_id)


def _root(settings: OpenMLSettings) -> Path:
    own = import_openml().config.get_config_as_dict()["cachedir"]
    return Path(own) if settings.cache is None else settings.cache.absolute()


def _server(settings: OpenMLSettings) -> str:
    return settings.server or str(import_openml().config.server)


def _download(cached: CachedTask, settings: LoadSettings) -> None:
    server, root = _server(settings.openml), _root(settings.openml)
    settings.network.require(server)
    addresses, masking = logging.getLogger("urllib3.connectionpool"), MaskingFilter()
    addresses.addFilter(masking)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".oretro-", dir=root) as stage:
            _Download(cached, settings, server, Path(stage)).run()
    except OSError as error:
        raise DataUnavailableError(
            f"the cache {root} cannot be written ({mask(str(error.strerror or error))})"
        ) from None
    finally:
        addresses.removeFilter(masking)


@dataclass(frozen=True)
class _Download:
    """Steps of one task; what a step brought is in the cache before the next one starts."""

    cached: CachedTask
    settings: LoadSettings
    server: str
    stage: Path

    def run(self) -> None:
        cached, splits = self.cached, self.settings.official_splits
        if cached.data_file() is not None:
            cached.check_md5()  # a damaged cache is not the server's fault
        self._describe(cached.task_folder / TASK_XML, "task", "task", cached.task_id)
        cached.require_regression()
        number, folder = cached.dataset_id, cached.dataset_folder
        assert number is not None
        assert folder is not None
        self._describe(folder / DESCRIPTION, "data", "data_set_description", number)
        if cached.expected_rows() is None:
            try:
                self._describe(folder / QUALITIES, "data/qualities", "data_qualities", number)
            except DataUnavailableError:
                # They only serve to count rows, and not every data set has them.
                logger.info("task %d: no qualities, so its rows are not counted", cached.task_id)
        if cached.data_file() is None:
            self._data(folder)
        if splits and not (cached.task_folder / SPLITS).is_file():
            self._add(cached.task_folder / SPLITS, self._get(cached.splits_url()), _read_splits)

    def _describe(self, target: Path, kind: str, root: str, number: int) -> None:
        """Add what the API says about a thing, unless it is there."""
        if not target.is_file():
            content = self._get(f"{self.server.rstrip('/')}/{kind}/{number}")
            require_answer(content, root)
            self._add(target, content, lambda copy: copy.missing(splits=False))

    def _data(self, folder: Path) -> None:
        """ARFF, which has a checksum; parquet where the server cannot serve it."""
        facts = self.cached.description()
        parquet = folder / f"dataset_{folder.name}.pq"
        if facts.sparse and facts.parquet_url:
            self._add(parquet, self._get(facts.parquet_url), _read)
            return
        try:
            self._add(folder / ARFF, self._get(facts.url), self._read_verified)
        except DataUnavailableError as error:
            if not facts.parquet_url:
                raise
            try:
                self._add(parquet, self._get(facts.parquet_url), _read)
            except DataUnavailableError as second:
                raise DataUnavailableError(f"ARFF: {error}; parquet: {second}") from None

    def _read_verified(self, copy: CachedTask) -> None:
        try:
            copy.check_md5()
        except DamagedCacheError as error:
            raise ChecksumError(
                f"OpenML task {self.cached.task_id}: the data that {urlparse(self.server).hostname}"
                f" sent do not have the md5 that it states ({error.reason}), so they were thrown "
                "away (was it a log-in page, or a file changed on its way?); run 'oretro data "
                "fetch CONFIG' again, or elsewhere"
            ) from None
        _read(copy)

    def _get(self, url: str) -> bytes:
        """The body of an answer; the key goes to the API's host alone.

        Raises:
            DataUnavailableError: there is none, or it says what is wrong.
        """
        host, _ = host_and_port(url)
        key = import_openml().config.apikey if host == urlparse(self.server).hostname else ""
        response = self.settings.network.get(url, key)
        if response.status_code >= _FAULT:
            said = error_message(response.content) or f"HTTP {response.status_code}"
            raise DataUnavailableError(f"{host} answers: {mask(said)}"[:300])
        return response.content

    def _add(self, target: Path, content: bytes, check: Callable[[CachedTask], object]) -> None:
        """Add a file that passes ``check`` aside, with all that is there.

        Raises:
            DataUnavailableError: it is damaged.
            ChecksumError: it is not what the server says of it.
        """
        copy = self.cached.copy_to(self.stage)
        staged = self.stage / target.relative_to(self.cached.folder)
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_bytes(content)
        try:
            check(copy)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(target)
        except DamagedCacheError as error:
            raise DataUnavailableError(f"the server sent a damaged file: {error.reason}") from None
        finally:
            staged.unlink(missing_ok=True)


def _read(copy: CachedTask) -> None:
    read_task(copy, splits=False)


def _read_splits(copy: CachedTask) -> None:
    read_task(copy, splits=True)
