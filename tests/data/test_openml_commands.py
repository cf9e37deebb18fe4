"""OpenML from the command line: fetched, listed, evaluated, and the built-in suites."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import call
from openml_server import FakeOpenML, houses, html

from experiments.data import resolve
from experiments.data.openml.catalogue import KNOWN_TASKS, identify, task_id
from experiments.errors import DataError
from experiments.sweep.config import load_config
from experiments.sweep.folder.results import read_cases
from experiments.sweep.schema import TIMING_COLUMNS


@pytest.fixture
def oretro(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run a command in this process and return its exit status."""
    monkeypatch.chdir(tmp_path)

    return lambda *arguments: call(monkeypatch, *map(str, arguments))


def write(folder: Path, server: FakeOpenML, tasks: list[int], extra: str = "") -> Path:
    path = folder / "suite.yaml"
    path.write_text(
        f"suite: local\nhost: mini\ndatasets: {[f'openml:{task}' for task in tasks]}\n"
        f"seeds: [1]\nn_estimators: 1\ntau: 0.001\nnoise_floor: false\n{extra}"
        f"openml: {{server: '{server.api}', tries: 1, cache: {folder / 'cache'}}}\n"
    )
    return path


def untimed(folder: Path) -> str:
    return read_cases(folder / "cases.csv").drop(columns=list(TIMING_COLUMNS)).to_csv()


def test_suite_runs_end_to_end_and_again_from_a_shipped_cache(
    serve, oretro, tmp_path, unchanged, capsys
) -> None:
    server = serve(t361235=houses(36, 3))
    config = write(tmp_path, server, [7, 361235])
    assert oretro("eval", config, "--out", "first", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["statuses"] == {"ok": 6}
    table = read_cases(tmp_path / "first" / "cases.csv")
    assert set(table["dataset"]) == {"task-7", "airfoil_self_noise-361235"}
    assert set(table["source"]) == {"openml:7", "openml:361235"}
    run = json.loads((tmp_path / "first" / "run.json").read_text())
    assert run["tables"]["task-7"]["notes"] == ["left out as the server says: row, tax"]

    server.fail("", html(500))
    shipped = shutil.copytree(tmp_path / "cache", tmp_path / "shipped")
    before = unchanged(shipped)
    assert oretro("eval", config, "--out", "second", "--offline", "--cache", shipped) == 0
    assert unchanged(shipped) == before
    assert untimed(tmp_path / "second") == untimed(tmp_path / "first")


def test_official_splits_decide_the_rows_and_change_the_scores(serve, oretro, tmp_path) -> None:
    server = serve()
    official = write(tmp_path, server, [7], "variants: [stock]\nsplits: official\n")
    assert oretro("eval", official, "--out", "official", "-q") == 0
    table = read_cases(tmp_path / "official" / "cases.csv")
    assert table["n_test"].tolist() == [10]
    assert oretro("eval", official, "--seeds", "4", "--out", "none", "-q") == 2
    ours = write(tmp_path, server, [7], "variants: [stock]\n")
    assert oretro("eval", ours, "--out", "ours", "-q") == 0
    assert read_cases(tmp_path / "ours" / "cases.csv")["n_test"].tolist() == [12]


def test_one_lost_task_is_told_and_the_others_run(serve, oretro, tmp_path, capsys) -> None:
    server = serve(t8=houses(30, 1))
    server.fail("/task/8", html(404))
    config = write(tmp_path, server, [7, 8], "variants: [stock]\n")
    assert oretro("eval", config, "--out", "out", "-q") == 1
    assert "data set task-8 is missing: OpenML task 8" in capsys.readouterr().err
    assert set(read_cases(tmp_path / "out" / "cases.csv")["dataset"]) == {"task-7"}
    assert "task-8" in json.loads((tmp_path / "out" / "run.json").read_text())["missing"]
    server.faults.clear()
    assert oretro("eval", config, "--out", "out", "-q") == 0
    assert "1 computed now, 1 reused" in capsys.readouterr().err
    assert set(read_cases(tmp_path / "out" / "cases.csv")["dataset"]) == {"task-7", "task-8"}


def test_published_suite_without_network_or_cache_fails_at_once(oretro, tmp_path, capsys) -> None:
    path = tmp_path / "mine.yaml"
    built_in = Path(__file__).parents[2] / "configs" / "openml18.yaml"
    path.write_text(built_in.read_text() + "openml: {server: 'http://127.0.0.1:9/api/v1/xml'}\n")
    start = time.monotonic()
    assert oretro("eval", path, "--cache", "empty", "--out", "out") == 2
    assert time.monotonic() - start < 15
    told = capsys.readouterr()
    assert told.err.startswith("error: OpenML task 361235 is not complete in the cache")
    assert "run 'oretro data fetch CONFIG --cache DIR', copy DIR here" in told.err
    assert told.out == ""
    assert not (tmp_path / "empty").exists()


def test_fetch_fills_and_checks_a_cache(serve, oretro, tmp_path, capsys, unchanged) -> None:
    server = serve(t8=houses(30, 1))
    config = write(tmp_path, server, [7, 8], "splits: official\n")
    assert oretro("data", "fetch", config, "--cache", "air", "--json") == 0
    states = json.loads(capsys.readouterr().out)
    assert [(item["name"], item["state"], item["rows"]) for item in states] == [
        ("task-7", "fetched", 40),
        ("task-8", "fetched", 30),
    ]
    assert states[0]["checked"] == "md5, 40 rows, 4 splits"
    before = unchanged(tmp_path / "air")
    server.fail("", html(500))
    assert oretro("data", "fetch", config, "--cache", "air", "--offline", "--json") == 0
    assert {item["state"] for item in json.loads(capsys.readouterr().out)} == {"there"}
    assert unchanged(tmp_path / "air") == before
    (arff,) = (tmp_path / "air").rglob("datasets/1008/dataset.arff")
    arff.write_bytes(arff.read_bytes()[:-3])
    assert oretro("data", "fetch", config, "--cache", "air", "--offline") == 1
    told = capsys.readouterr()
    assert "failed" in told.out
    assert f"{arff} is corrupt" in told.err


def test_fetch_of_packaged_data_says_that_there_is_nothing_to_do(oretro, capsys) -> None:
    assert oretro("data", "fetch", "packaged18") == 0
    assert "nothing to fetch" in capsys.readouterr().err


def test_show_names_columns_left_out(serve, oretro, tmp_path, capsys, monkeypatch) -> None:
    import openml

    server = serve()
    monkeypatch.setattr(openml.config, "server", server.api)
    assert oretro("data", "show", "openml:7", "--cache", "c", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["columns"], facts["target"]) == (40, 6, "price")
    assert facts["notes"] == ["left out as the server says: row, tax"]


def test_list_names_packaged_sets_and_both_suites(oretro, capsys) -> None:
    assert oretro("data", "list", "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    suites = [entry["suite"] for entry in entries]
    assert suites.count("OpenML-CTR23") == 35
    assert suites.count("TabArena-v0.1") == 13
    (ames,) = [entry for entry in entries if entry["name"] == "ames"]
    assert (ames["source"], ames["suite"], ames["rows"]) == ("packaged", "", 2930)


def test_built_in_suites_are_those_that_were_published() -> None:
    def ids(name: str) -> list[int]:
        return [task_id(resolve(reference)[1]) for reference in load_config(name).datasets]

    assert ids("openml18") == [361235, 361237, 361617, 361621, 361622, 361250]
    assert load_config("openml18").seeds == load_config("packaged18").seeds
    by_suite = {"ctr23": "OpenML-CTR23", "tabarena_regression": "TabArena-v0.1"}
    for name, suite in by_suite.items():
        assert ids(name) == [t.task_id for t in KNOWN_TASKS.values() if t.suite == suite]
        assert load_config(name).splits == "official"
    assert all(KNOWN_TASKS[number].rows < 5000 for number in ids("openml18"))


def test_tasks_are_named_by_id_label_or_unambiguous_name() -> None:
    assert identify("361234") == identify("abalone") == identify("abalone-361234")
    # Both suites have a data set of that name, and they differ.
    assert identify("miami_housing") is None
    assert identify("361260") != identify("363686")
    assert identify("424242") == "task-424242"
    assert resolve("openml:abalone")[1] == "abalone-361234"
    with pytest.raises(
        DataError, match=r"did you mean miami_housing-36(1260|3686), miami_housing-36"
    ):
        resolve("openml:miami_housing")
