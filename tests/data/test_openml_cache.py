"""A cache that is read and not touched, whatever is wrong with it."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from openml_server import FakeOpenML, houses, html

from experiments.data import load_table
from experiments.errors import DataError, DataUnavailableError

TASK = "openml:7"


@pytest.fixture
def warm(serve, settings, tmp_path):
    """Fetch a task, stop its server, and return settings that read the cache alone."""

    def make(data=None, *, official=True, parquet=False):
        server: FakeOpenML = serve(replace(data or houses(), parquet=parquet))
        if parquet:
            server.fail("houses.arff", html(404))
        load_table(TASK, settings(server, official=official))
        address = server.api
        server.fail("", html(500))
        return lambda **fields: settings(address, official=official, offline=True, **fields)

    return make


def found(cache: Path, name: str) -> Path:
    (path,) = cache.rglob(name)
    return path


@pytest.mark.parametrize("parquet", [False, True], ids=["arff", "parquet"])
def test_offline_reading_changes_no_byte_and_no_time(warm, tmp_path, unchanged, parquet) -> None:
    offline = warm(parquet=parquet)
    cache = tmp_path / "cache"
    before = unchanged(cache)
    assert len(before) > 6
    for _ in range(2):
        table = load_table(TASK, offline())
        assert (len(table.y), len(table.splits)) == (40, 4)
    assert unchanged(cache) == before


def test_fetched_cache_holds_no_pickle_and_works_elsewhere(warm, tmp_path) -> None:
    offline = warm()
    assert not list((tmp_path / "cache").rglob("*.pkl*"))
    assert not list((tmp_path / "cache").glob(".oretro-*"))
    moved = shutil.copytree(tmp_path / "cache", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "cache")
    assert len(load_table(TASK, offline(cache=moved)).y) == 40


def test_complete_cache_needs_no_network(serve, settings) -> None:
    server = serve()
    load_table(TASK, settings(server))
    asked = sum(server.asked.values())
    load_table(TASK, settings(server))
    assert sum(server.asked.values()) == asked


def test_empty_cache_offline_names_what_is_missing_and_creates_nothing(settings, tmp_path) -> None:
    with pytest.raises(DataUnavailableError, match=r"missing: tasks/7/task\.xml.*offline mode"):
        load_table(TASK, settings("http://127.0.0.1:9/api/v1/xml", offline=True))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("task.xml", r"missing: tasks/7/task\.xml"),
        ("description.xml", r"missing: datasets/1007/description\.xml"),
        ("dataset.arff", r"missing: datasets/1007/dataset\.arff"),
        ("datasplits.arff", r"missing: tasks/7/datasplits\.arff"),
    ],
)
def test_missing_file_is_named_and_the_others_survive(
    warm, tmp_path, unchanged, name: str, told: str
) -> None:
    offline = warm()
    found(tmp_path / "cache", name).unlink()
    before = unchanged(tmp_path / "cache")
    with pytest.raises(DataUnavailableError, match=told):
        load_table(TASK, offline())
    assert unchanged(tmp_path / "cache") == before


@pytest.mark.parametrize("name", ["task.xml", "description.xml", "dataset.arff", "datasplits.arff"])
@pytest.mark.parametrize("damage", ["cut", "empty", "web page"])
def test_damaged_file_is_named_and_nothing_is_deleted(
    warm, tmp_path, unchanged, name: str, damage: str
) -> None:
    offline = warm()
    path = found(tmp_path / "cache", name)
    content = path.read_bytes()
    half = content[: len(content) // 2]
    path.write_bytes({"cut": half, "empty": b"", "web page": b"<html>404</html>"}[damage])
    before = unchanged(tmp_path / "cache")
    with pytest.raises(
        DataError, match=r"(?s)is corrupt.*delete it and run 'oretro data fetch"
    ) as e:
        load_table(TASK, offline())
    assert name in str(e.value)
    assert unchanged(tmp_path / "cache") == before


def test_missing_rows_are_noticed_without_a_checksum(warm, tmp_path) -> None:
    for official in (False, True):
        data = replace(houses(), md5=False, qualities=not official)
        offline = warm(data, official=official)
        path = found(tmp_path / "cache", "dataset.arff")
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-11]))
        told = "split 0 names 40 rows up to row 39, the data have 29" if official else "29 of 40"
        with pytest.raises(DataError, match=told):
            load_table(TASK, offline())
        shutil.rmtree(tmp_path / "cache")


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return (Path.touch, (Path(self.path),))  # type: ignore[attr-defined]


def test_pickle_in_a_cache_is_never_read(warm, tmp_path) -> None:
    offline = warm()
    bomb = Bomb()
    bomb.path = str(tmp_path / "exploded")  # type: ignore[attr-defined]
    poison = pickle.dumps(bomb)
    for name in ("dataset.arff", "datasplits.arff"):
        path = found(tmp_path / "cache", name)
        path.with_suffix(".pkl.py3").write_bytes(poison)
    assert len(load_table(TASK, offline()).y) == 40
    assert not (tmp_path / "exploded").exists()
    pickle.loads(poison)
    assert (tmp_path / "exploded").exists()


def test_parquet_address_without_its_file_reads_the_arff(warm, tmp_path, unchanged) -> None:
    server_data = replace(houses(), parquet=True)
    offline = warm(server_data)
    assert not list((tmp_path / "cache").rglob("*.pq"))
    before = unchanged(tmp_path / "cache")
    assert len(load_table(TASK, offline()).y) == 40
    assert unchanged(tmp_path / "cache") == before


def test_cache_that_cannot_be_written_is_named(serve, settings, tmp_path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    with pytest.raises(DataUnavailableError, match=r"a file/cache cannot be written .*--cache DIR"):
        load_table(TASK, settings(serve(), cache=blocked / "cache"))


def test_fetching_again_replaces_nothing(serve, settings, tmp_path, unchanged) -> None:
    server = serve()
    load_table(TASK, settings(server))
    arff = found(tmp_path / "cache", "dataset.arff")
    arff.write_bytes(arff.read_bytes()[:-5])
    before = unchanged(arff.parent)
    with pytest.raises(DataError, match=r"dataset\.arff is corrupt: its md5"):
        load_table(TASK, settings(server, official=True))
    assert unchanged(arff.parent) == before


def test_client_that_cannot_make_its_folders_says_which_variables_to_set(
    settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = __import__

    def blocked(name: str, *arguments: object, **options: object) -> object:
        if name == "openml":
            raise OSError(30, "Read-only file system", "/home/me/.cache/openml")
        return real(name, *arguments, **options)

    monkeypatch.setattr("builtins.__import__", blocked)
    told = r"cannot start .*Read-only.*\.cache/openml.*OPENML_CACHE_DIR and XDG_CONFIG_HOME"
    with pytest.raises(DataUnavailableError, match=told):
        load_table(TASK, settings("http://127.0.0.1:9/api/v1/xml"))
