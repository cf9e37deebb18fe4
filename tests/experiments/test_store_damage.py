"""Records and tables that were changed on disk: none is accepted, whatever the change."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sweeping import sweep, untimed
from test_store import KEY, ROW

from experiments.errors import ResultsError
from experiments.io.text import encodable
from experiments.report.summary import summarise_folder
from experiments.sweep import schema
from experiments.sweep.config import SweepConfig
from experiments.sweep.folder.results import read_cases
from experiments.sweep.folder.store import ResultStore

DAMAGES = {
    "empty": lambda text: "",
    "cut": lambda text: text[:-30],
    "list": lambda text: "[]",
    "edited RMSE": lambda text: text.replace("0.30000000000000004", "0.29"),
    "negative RMSE": lambda text: text.replace("0.30000000000000004", "-0.3"),
    "missing MAE": lambda text: text.replace('"mae": 0.2', '"mae": null'),
    "status great": lambda text: text.replace('"status": "ok"', '"status": "great"'),
    "NaN": lambda text: text.replace("0.30000000000000004", "NaN"),
    "deep": lambda text: "[" * 100_000,
    "long number": lambda text: text.replace("0.30000000000000004", "9" * 5000),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_record_is_not_finished_and_a_strangers_file_is_refused(
    tmp_path: Path, kind: str
) -> None:
    ResultStore(tmp_path, [KEY]).add(KEY, ROW, {})
    (record,) = (tmp_path / "cases").iterdir()
    whole = record.read_text()
    record.write_text(DAMAGES[kind](whole))
    assert record.read_text() != whole
    store = ResultStore(tmp_path, [KEY])
    assert (store.finished(KEY), store.damaged) == (False, (record.name,))
    record.write_text(whole)
    store = ResultStore(tmp_path, [KEY])
    assert (store.finished(KEY), store.damaged) == (True, ())
    (tmp_path / "cases" / "mine.json").write_text(DAMAGES[kind](whole))
    with pytest.raises(ResultsError, match=r"mine\.json: damaged.*delete this one file"):
        ResultStore(tmp_path, [KEY])


def test_none_of_180_damages_of_records_is_accepted(
    toy_config: SweepConfig, tmp_path: Path
) -> None:
    """Bits flipped, ends cut, fields changed, gone and added: the tables come out as before."""
    folder = tmp_path / "run"
    sweep(toy_config, folder)
    whole = {path: path.read_bytes() for path in folder.rglob("*.json")}
    paths = sorted(path for path in whole if path.parent.name in ("cases", "noise"))
    before = untimed(folder)
    assert len(paths) == 20
    for turn in range(9):
        for number, path in enumerate(paths, start=turn * len(paths)):
            path.write_bytes(damage(whole[path], random.Random(number)))
        outcome = sweep(toy_config, folder)
        assert outcome.damaged == tuple(path.name for path in paths)
        assert (outcome.computed, untimed(folder)) == (20, before)


def damage(whole: bytes, draw: random.Random) -> bytes:
    """The record with another meaning, or none."""
    kind = draw.choice(["flip", "cut", "field", "gone", "added"])
    if kind == "cut":
        return whole[: draw.randrange(len(whole) - 2)]
    if kind == "flip":
        return flipped(whole, draw)
    content = json.loads(whole)
    part = content[draw.choice(["row", "key", "details"])] if draw.random() < 0.8 else content
    name = draw.choice(sorted(part) or [""])
    if kind == "gone" and name:
        del part[name]
    elif kind == "field" and name:
        values = [None, [], {}, "great", -1.5, 0, 1e308, "", True, 10**30]
        part[name] = draw.choice([value for value in values if value != part[name]])
    else:
        part["more"] = 1
    return json.dumps(content).encode()


def flipped(whole: bytes, draw: random.Random) -> bytes:
    """The record with one bit turned; white space carries no meaning and is left alone."""
    while True:
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        try:
            if json.loads(bytes(changed)) == json.loads(whole):
                continue
        except ValueError:
            pass
        return bytes(changed)


@pytest.mark.parametrize("table", ["cases.csv", "noise.csv", "coverage.csv"])
def test_edited_table_of_a_finished_run_is_refused_and_remade(
    toy_config: SweepConfig, tmp_path: Path, table: str
) -> None:
    sweep(toy_config, tmp_path)
    path = tmp_path / table
    whole = path.read_text()
    summarise_folder(tmp_path, margin_pct=0.5)
    column = 4 if table == "coverage.csv" else schema.columns().index("r2")
    cell = whole.splitlines()[1].split(",")[column]
    path.write_text(whole.replace(cell, "0.71", 1))
    with pytest.raises(ResultsError, match=rf"{table} is not the table that the run wrote"):
        summarise_folder(tmp_path, margin_pct=0.5)
    assert sweep(toy_config, tmp_path).computed == 0
    assert path.read_text() == whole


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ({"schema": 2}, "later version of oretro"),
        ({"schema": 10**400}, "later version of oretro"),
        ({"config": None}, "damaged .config"),
        ({"config": []}, "damaged .config"),
        ({"tables": {"left": None}}, "damaged .tables.left"),
        ({"tables": {"left": {"rows": "many"}}}, "damaged .tables.left"),
        ({"patches": {"oa": {"streams": [{"name": "s", "tau": 0.1}]}}}, "damaged .patches.oa"),
        ({"patches": {"oa@x": {}}}, "damaged .patches"),
        ({"versions": [1]}, "damaged .versions"),
        ({"times": {"started": 3}}, "damaged .times"),
        ({"command": "oretro"}, "damaged .command"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_damaged_run_record_is_a_sentence_and_remade(
    toy_config: SweepConfig, tmp_path: Path, edit: dict[str, object], told: str
) -> None:
    sweep(toy_config, tmp_path)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises(ResultsError, match=told) as caught:
        summarise_folder(tmp_path, margin_pct=0.5)
    assert len(str(caught.value)) < 2000
    assert sweep(toy_config, tmp_path).computed == 0
    summarise_folder(tmp_path, margin_pct=0.5)


TEXTS = st.text(st.characters(exclude_categories=[]), max_size=40)
SIZES = st.integers(0, 2**63 - 1)
NUMBERS = st.floats(0, allow_nan=False, allow_infinity=False) | st.just(0.1 + 0.2)
MAYBE = st.just(float("nan")) | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=500, deadline=None)
@given(
    texts=st.fixed_dictionaries(dict.fromkeys(("suite", "dataset", "source", "error"), TEXTS)),
    sizes=st.fixed_dictionaries(dict.fromkeys(("seed", "n_train", "n_test", "n_features"), SIZES)),
    numbers=st.fixed_dictionaries({"fit_s": NUMBERS, "predict_s": NUMBERS}),
    nll=MAYBE,
    rmse=NUMBERS,
    share=st.floats(0, 1),
    status=st.sampled_from(schema.STATUSES),
)
def test_whatever_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, texts, sizes, numbers, nll, rmse, share, status
) -> None:
    scores = {"rmse": rmse, "mae": rmse * share, "r2": -rmse}
    if status not in schema.SCORED:
        scores = dict.fromkeys(scores, float("nan"))
    scores["nll"] = nll
    done = dataclasses.replace(ROW, **texts, **sizes, **numbers, scores=scores, status=status)
    here = dataclasses.replace(KEY, dataset=done.dataset, seed=done.seed)
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        ResultStore(folder, [here]).add(here, done, texts)
    (record,) = ResultStore(folder, [here]).records()
    assert exact(record.row) == exact(done)
    assert record.details == texts
    (read,) = read_cases(folder / "cases.csv").to_dict("records")
    told = {name: encodable(text) for name, text in texts.items()}
    beside = {"coverage80": None}
    assert exact(read | beside) == exact(dataclasses.replace(done, **told))


def exact(row: schema.CaseRow | dict[str, object]) -> dict[str, object]:
    """Every value as it is written, NaN as None."""
    values = schema.to_json(row) if isinstance(row, schema.CaseRow) else row
    values = {name: None if value != value else value for name, value in values.items()}
    return {name: repr(value) for name, value in values.items()}
