"""Filling the openml client's cache: download aside, check, then add what is missing.

Nothing that is already in the cache is replaced or removed, whatever happens on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from xml.parsers.expat import ExpatError

from experiments.data.openml.cache import SPLITS, CachedTask
from experiments.data.openml.client import import_openml, logger, mask, openml_client
from experiments.data.openml.read import TaskData, read_task
from experiments.errors import ChecksumError, DamagedCacheError, DataUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.data.settings import LoadSettings, OpenMLSettings


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
    return read_task(cached, settings.openml.server, splits=settings.official_splits)


def cached_task(task_id: int, settings: OpenMLSettings) -> CachedTask:
    """The task's place in the cache of the configured server.

    Raises:
        DataUnavailableError: the client cannot start.
    """
    with openml_client(_root(settings), settings.server, None, parquet=False) as openml:
        return CachedTask(Path(openml.config.get_cache_directory()), task_id)


def _root(settings: OpenMLSettings) -> Path:
    if settings.cache is not None:
        return settings.cache.absolute()
    return Path(import_openml().config.get_config_as_dict()["cachedir"])


def _download(cached: CachedTask, settings: LoadSettings) -> None:
    root = _root(settings.openml)
    settings.network.require(settings.openml.server or import_openml().config.server)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".oretro-", dir=root) as stage:
            _Download(cached, settings, Path(stage)).run()
    except OSError as error:
        raise DataUnavailableError(
            f"the cache {root} cannot be written ({mask(str(error.strerror or error))})"
        ) from None


@dataclass(frozen=True)
class _Download:
    """Steps of one task; what a step brought is in the cache before the next one starts."""

    cached: CachedTask
    settings: LoadSettings
    stage: Path

    def run(self) -> None:
        cached, splits = self.cached, self.settings.official_splits
        if cached.data_file() is not None:
            cached.check_md5()  # a damaged cache is not the server's fault
        self._add(self._step(self._describe))
        cached.require_regression()
        if cached.expected_rows() is None:
            self._qualities()
        if cached.data_file() is None:
            self._add(self._data(), check=True)
        if splits and not (cached.task_folder / SPLITS).is_file():
            self._add(self._step(self._splits), check=True, splits=True)

    def _describe(self, openml: Any) -> None:
        openml.tasks.get_task(self.cached.task_id, download_splits=False, download_data=False)

    def _load_data(self, openml: Any) -> None:
        openml.tasks.get_task(self.cached.task_id, download_splits=False, download_data=True)

    def _splits(self, openml: Any) -> None:
        openml.tasks.get_task(self.cached.task_id, download_splits=True, download_data=False)

    def _qualities(self) -> None:
        """They only serve to count rows, and not every data set has them."""

        def step(openml: Any) -> None:
            number = self.cached.dataset_id
            openml.datasets.get_dataset(number, download_data=False, download_qualities=True)

        try:
            self._add(self._step(step))
        except DataUnavailableError:
            logger.info("task %d: no qualities, so its rows are not counted", self.cached.task_id)

    def _data(self) -> CachedTask:
        """ARFF, which has a checksum; parquet where the server cannot serve it."""
        facts = self.cached.description()
        if facts.sparse and facts.parquet_url:
            return self._step(self._load_data, parquet=True)
        try:
            return self._step(self._load_data)
        except DataUnavailableError as error:
            if not facts.parquet_url:
                raise
            try:
                return self._step(self._load_data, parquet=True)
            except DataUnavailableError as second:
                raise DataUnavailableError(f"ARFF: {error}; parquet: {second}") from None

    @property
    def _host(self) -> str:
        server = self.settings.openml.server or import_openml().config.server
        return urlparse(server).hostname or "the server"

    def _step(self, work: Callable[[Any], None], *, parquet: bool = False) -> CachedTask:
        """Let the client add to a copy of what is already there; return that copy.

        Raises:
            DataUnavailableError: the server, or what it sent, is at fault.
            ChecksumError: what it sent is not what it says of it.
        """
        openml_settings, network = self.settings.openml, self.settings.network
        with openml_client(self.stage, openml_settings.server, network, parquet=parquet) as openml:
            # Copied for each step: the client deletes the whole task when a step fails.
            copy = self.cached.copy_to(Path(openml.config.get_cache_directory()))
            try:
                work(openml)
            except DataUnavailableError:
                raise
            except openml.exceptions.OpenMLHashException:
                raise ChecksumError(
                    f"OpenML task {self.cached.task_id}: the data that {self._host} sent do not "
                    "have the md5 that it states, so they were thrown away (was it a log-in page, "
                    "or a file changed on its way?); run 'oretro data fetch CONFIG' again, or "
                    "elsewhere"
                ) from None
            except Exception as error:  # the client lets its parsers' errors through
                if isinstance(error, OSError) and not _is_requests_error(error):
                    raise
                raise DataUnavailableError(_explain(error)) from None
        return copy

    def _add(self, copy: CachedTask, *, check: bool = False, splits: bool = False) -> None:
        """Move new files into the cache, after reading them where ``check`` says so."""
        try:
            if check:
                read_task(copy, self.settings.openml.server, splits=splits)
            else:
                copy.missing(splits=False)  # parses what was sent
        except DamagedCacheError as error:
            raise DataUnavailableError(f"the server sent a damaged file: {error.reason}") from None
        for path in copy.files():
            target = self.cached.folder / path.relative_to(copy.folder)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)


def _is_requests_error(error: Exception) -> bool:
    import requests

    return isinstance(error, requests.RequestException)


def _explain(error: Exception) -> str:
    """One line without the API key; a client's ``KeyError`` says nothing to a reader."""
    if isinstance(error, (KeyError, ExpatError)):
        return "the answer is not OpenML's (does a proxy or a log-in page answer in its place?)"
    text = " ".join(mask(str(error)).split())
    if "<html" in text.lower():
        text = text[: text.lower().index("<html")] + "(a web page)"
    return f"{type(error).__name__}: {text}"[:300]
