"""A fresh cache per test, and a client whose own folders lie in a temporary place."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from openml_server import FakeOpenML, ToyData, houses

from experiments.data.settings import LoadSettings, OpenMLSettings

TASK = 7


@pytest.fixture(scope="session", autouse=True)
def own_openml_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Importing the client creates folders; they belong to the test."""
    folder = tmp_path_factory.mktemp("openml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENML_CACHE_DIR", str(folder / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        import openml  # noqa: F401

        yield


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeOpenML]]:
    """Start servers that are stopped at the end of the test."""
    running: list[FakeOpenML] = []

    def start(data: ToyData | None = None, **others: ToyData) -> FakeOpenML:
        tasks = {TASK: data or houses()} | {int(key[1:]): toy for key, toy in others.items()}
        running.append(FakeOpenML(tasks).__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__(None, None, None)


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., LoadSettings]:
    """Settings for a server, with the cache in the test's folder and no time to waste."""

    def make(
        server: FakeOpenML | str | None, *, official: bool = False, **fields: object
    ) -> LoadSettings:
        address = server.api if isinstance(server, FakeOpenML) else server
        given = {"cache": tmp_path / "cache", "tries": 2, "read_timeout_s": 5.0} | fields
        made = LoadSettings(OpenMLSettings(server=address, **given), official_splits=official)
        made.network.first_delay_s = 0.01
        return made

    return make


def snapshot(folder: Path) -> dict[str, tuple[str, int]]:
    """Hash and time of every file, time of every folder: what any write would change."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        content = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = (content, path.stat().st_mtime_ns)
    return found


@pytest.fixture
def unchanged() -> Callable[[Path], dict[str, tuple[str, int]]]:
    return snapshot


@pytest.fixture(autouse=True)
def no_parquet_switch() -> Iterator[None]:
    """A test may not leave the client's switch behind."""
    before = os.environ.get("OPENML_SKIP_PARQUET")
    yield
    assert os.environ.get("OPENML_SKIP_PARQUET") == before
