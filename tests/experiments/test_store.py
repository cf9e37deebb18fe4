"""The results folder: nothing finished is lost, nothing foreign is mixed in."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
from pathlib import Path

import pytest

from experiments.errors import FolderInUseError, ResultsError
from experiments.io.own_files import FIGURES, REPORT_FILES, TABLES, clear_folder
from experiments.sweep import schema
from experiments.sweep.folder.keys import ResultKey
from experiments.sweep.folder.lock import folder_lock
from experiments.sweep.folder.results import read_cases
from experiments.sweep.folder.store import ResultStore, prepare_folder
from retrofit.files.atomic import write_atomic

KEY = ResultKey(
    dataset="toy",
    data_sha256="d" * 64,
    split_sha256="s" * 64,
    seed=1,
    variant="oa",
    settings=(("target_presence", "0.999"),),
    host_sha256="h" * 64,
    n_estimators=8,
    dtype="float32",
    device="cpu",
    threads=2,
    cpu=(("torch", "AVX2"),),
    versions=(("torch", "2.13.0"),),
    code_sha256="c" * 64,
)
ROW = schema.CaseRow(
    suite="s",
    dataset="toy",
    source="test",
    data_sha256="d" * 64,
    seed=1,
    variant="oa",
    host="mini",
    host_sha256="h" * 64,
    n_train=7,
    n_test=3,
    n_features=2,
    scores={"rmse": 0.1 + 0.2, "mae": 0.2},
    predict_s=1.5,
)


def key(**changes: object) -> ResultKey:
    return dataclasses.replace(KEY, **changes)


def row(**changes: object) -> schema.CaseRow:
    return dataclasses.replace(ROW, **changes)


def test_columns_are_the_plans() -> None:
    assert ",".join(schema.columns()) == (
        "suite,dataset,source,data_sha256,seed,variant,host,host_sha256,n_train,n_test,n_features,"
        "rmse,mae,r2,nll,fit_s,predict_s,peak_rss_mb,status,error"
    )


def test_row_survives_json_and_csv_to_the_last_bit(tmp_path: Path) -> None:
    plain = json.loads(json.dumps(schema.to_json(ROW), allow_nan=False))
    restored = schema.from_json(plain)
    assert restored.scores["rmse"] == 0.1 + 0.2
    assert math.isnan(restored.scores["nll"])
    assert schema.to_json(restored) == plain
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    table = read_cases(tmp_path / "cases.csv")
    assert table["rmse"][0] == 0.1 + 0.2
    assert table["nll"].isna()[0]
    assert (tmp_path / "cases.csv").read_text().splitlines()[1].count("0.30000000000000004") == 1


def test_table_order_does_not_depend_on_the_order_of_work(tmp_path: Path) -> None:
    places = [
        (name, seed, variant)
        for name in ("b", "a")
        for seed in (2, 10)
        for variant in ("full", "knn", "stock", "oa")
    ]
    keys = [key(dataset=d, seed=s, variant=v) for d, s, v in places]
    texts = []
    for number, order in enumerate((keys, keys[::-1])):
        folder = tmp_path / str(number)
        store = ResultStore(folder, keys)
        for item in order:
            done = row(dataset=item.dataset, seed=item.seed, variant=item.variant)
            store.add(item, done, {})
        texts.append((folder / "cases.csv").read_bytes())
    assert texts[0] == texts[1]
    written = [line.split(b",") for line in texts[0].splitlines()[1:5]]
    assert [cells[5] for cells in written] == [b"stock", b"oa", b"full", b"knn"]
    assert [cells[4] for cells in written] == [b"2"] * 4


def test_finished_result_is_found_again_and_a_failed_one_is_not(tmp_path: Path) -> None:
    failed = key(variant="full")
    store = ResultStore(tmp_path, [KEY, failed])
    store.add(KEY, ROW, {})
    store.add(failed, row(variant="full", status="failed", error="no"), {})
    again = ResultStore(tmp_path, [KEY, failed])
    assert again.finished(KEY)
    assert not again.finished(failed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"host_sha256": "x" * 64}, "host_sha256: hhhhhhhhhhhh… -> xxxxxxxxxxxx…"),
        ({"settings": (("tau", "0.1"),)}, "settings: target_presence 0.999 -> tau 0.1"),
        ({"versions": (("torch", "2.14.0"),)}, r"versions: torch 2\.13\.0 -> torch 2\.14\.0"),
        ({"data_sha256": "e" * 64}, "data_sha256"),
        ({"split_sha256": "e" * 64}, "split_sha256"),
        ({"threads": 1}, "threads: 2 -> 1"),
        ({"n_estimators": 4}, "n_estimators: 8 -> 4"),
        ({"code_sha256": "e" * 64}, "code_sha256"),
        ({"seed": 2}, "toy, seed 1, oa, which is not part of this run"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_folder_of_another_run_is_refused_and_left_alone(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ResultsError, match="belongs to another run.*" + told):
        ResultStore(tmp_path, [key(**change)])
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name",
    ["a|b", "price_$usd", "=cmd", "../x", "x" * 300, "é/ü", 'q"q,', "NA", "a\rb", "a\nb", "a\r\nb"],
)
def test_any_name_makes_a_safe_file_and_comes_back(tmp_path: Path, name: str) -> None:
    odd = key(dataset=name)
    ResultStore(tmp_path, [odd]).add(odd, row(dataset=name), {})
    assert len(list((tmp_path / "cases").iterdir())) == 1
    assert ResultStore(tmp_path, [odd]).finished(odd)
    assert read_cases(tmp_path / "cases.csv")["dataset"].tolist() == [name]


def test_name_that_utf8_cannot_hold_leaves_a_table_that_can_be_read(tmp_path: Path) -> None:
    odd = key(dataset="pr\udce9s")
    ResultStore(tmp_path, [odd]).add(odd, row(dataset="pr\udce9s", error="no\rgood"), {})
    assert ResultStore(tmp_path, [odd]).finished(odd)
    table = read_cases(tmp_path / "cases.csv")
    assert table["dataset"].tolist() == ["pr\\udce9s"]
    assert table["error"].tolist() == ["no\rgood"]
    assert (tmp_path / "cases.csv").read_bytes().count(b"\n") == 2


def test_names_that_look_alike_on_disk_do_not_collide(tmp_path: Path) -> None:
    keys = [key(dataset=name) for name in ("a b", "a/b", "a_b", "Wage", "wage", "WAGE")]
    store = ResultStore(tmp_path, keys)
    for item in keys:
        store.add(item, row(dataset=item.dataset), {})
    # In small letters, as a disk sees them that does not tell capitals apart.
    assert len({path.name.lower() for path in (tmp_path / "cases").iterdir()}) == 6


def test_row_that_would_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, [KEY])
    infinite = {"rmse": math.inf, "mae": 0.2}
    without, above = {"rmse": 0.3}, {"rmse": 0.3, "mae": 0.4}
    negative, odd = {"rmse": -0.3, "mae": -0.4}, {"rmse": 1.0, "mae": 0.5, "x": "y"}
    changes = [{"scores": scores} for scores in (infinite, without, above, negative, odd)]
    for change in (*changes, {"status": "great"}, {"n_test": -1}, {"n_train": 1.0}):
        with pytest.raises(ValueError, match="toy, seed 1, oa: "):
            store.add(KEY, row(**change), {})
    assert not list((tmp_path / "cases").iterdir())


def test_record_of_a_later_format_is_refused(tmp_path: Path) -> None:
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    (record,) = (tmp_path / "cases").iterdir()
    record.write_text(record.read_text().replace('"version": 2', '"version": 3'))
    with pytest.raises(ResultsError, match="another version of oretro"):
        ResultStore(tmp_path, [KEY])


def test_full_disk_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cases.csv"
    write_atomic(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["cases.csv"]


def test_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am a file")
    with pytest.raises(ResultsError, match="cannot be written"):
        prepare_folder(tmp_path / "file")


def test_nearly_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.sweep.folder.store.MIN_FREE_BYTES", 2**62)
    with pytest.raises(ResultsError, match="MiB are free"):
        prepare_folder(tmp_path)


OWN_RUN = '{"status": "running", "config": {"suite": "s"}, "versions": {"oretro": "0.1.0"}}'
FOREIGN = {
    "notes.txt": "mine",
    "cases/patient.json": '{"name": "A. Patient"}',
    "cases/list.json": "[1, 2]",
    "cases/broken.json": "{",
    "noise/level.json": '{"version": 1, "dB": 3}',
    "figures/photo.png": "mine",
}


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files_of(folder: Path) -> dict[str, str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def test_fresh_start_removes_what_oretro_wrote_and_nothing_else(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    noise = key(variant="stock@repeat")
    ResultStore(tmp_path, [noise], "noise").add(noise, row(variant="stock@repeat"), {})
    named = [*TABLES, *REPORT_FILES, *(f"figures/{name}.svg" for name in FIGURES)]
    write_files(tmp_path, {**dict.fromkeys(named, "old"), "run.json": OWN_RUN, **FOREIGN})
    clear_folder(tmp_path)
    assert files_of(tmp_path) == FOREIGN


def test_fresh_start_leaves_no_empty_folder_of_figures(tmp_path: Path) -> None:
    write_files(tmp_path, {"run.json": OWN_RUN, "figures/tau.png": "old"})
    clear_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("record", [{}, {"run.json": '{"status": "running", "schema": 1}'}])
def test_fresh_start_in_a_strangers_folder_removes_nothing(
    tmp_path: Path, record: dict[str, str]
) -> None:
    theirs = {**dict.fromkeys(("baselines.csv", "summary.csv", "report.md"), "theirs"), **record}
    write_files(tmp_path, {**theirs, **FOREIGN})
    clear_folder(tmp_path)
    assert files_of(tmp_path) == {**theirs, **FOREIGN}


@pytest.mark.parametrize("name", ["summary.csv", "baselines.csv", "run.json"])
def test_a_strangers_table_is_not_written_over(tmp_path: Path, name: str) -> None:
    write_files(tmp_path, {name: "theirs"})
    with pytest.raises(ResultsError, match=rf"{name} was not written by 'oretro eval'.*--out"):
        prepare_folder(tmp_path)
    assert files_of(tmp_path) == {name: "theirs"}
    write_files(tmp_path, {"run.json": OWN_RUN})
    prepare_folder(tmp_path)


def test_a_damaged_run_record_beside_results_does_not_make_the_folder_foreign(
    tmp_path: Path,
) -> None:
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    write_files(tmp_path, {"run.json": "{"})
    prepare_folder(tmp_path)
    clear_folder(tmp_path)
    assert files_of(tmp_path) == {}


def test_second_writer_is_refused_with_pid_and_machine(tmp_path: Path) -> None:
    with (
        folder_lock(tmp_path),
        pytest.raises(FolderInUseError, match=rf"process {os.getpid()} on \S+"),
        folder_lock(tmp_path),
    ):
        pass
    with folder_lock(tmp_path):
        pass


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "no column suite"),
        ("", "not a table of cases"),
        (None, "does not exist"),
    ],
)
def test_foreign_table_is_refused(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "cases.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ResultsError, match=told):
        read_cases(path)


@pytest.mark.parametrize(
    ("rmse", "told"),
    [
        ("", "status 'ok' but no RMSE"),
        ("nan", "status 'ok' but no RMSE"),
        ("inf", "rmse is infinite"),
        ("-0.3", "rmse is negative"),
        ("0.1", "MAE above RMSE"),
    ],
)
def test_scored_row_without_a_score_is_refused(tmp_path: Path, rmse: str, told: str) -> None:
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    path = tmp_path / "cases.csv"
    path.write_text(path.read_text().replace("0.30000000000000004", rmse))
    with pytest.raises(ResultsError, match=f"toy, seed 1, oa: {told}"):
        read_cases(path)


def test_repeated_row_and_second_header_are_refused(tmp_path: Path) -> None:
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    path = tmp_path / "cases.csv"
    header, line = path.read_text().splitlines()
    path.write_text("\n".join((header, line, line, "")))
    with pytest.raises(ResultsError, match="more than once"):
        read_cases(path)
    path.write_text("\n".join((header, line, header)))
    with pytest.raises(ResultsError, match=r"line 3 is damaged: .*cut off"):
        read_cases(path)
    path.write_text("\n".join((header, line, header, "")))
    with pytest.raises(ResultsError, match=r"line 3 is damaged: it is a second header.*remade"):
        read_cases(path)
