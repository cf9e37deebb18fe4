"""A calibration is what patch would find itself, survives its file, and fits one host alone."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import retrofit
from retrofit import Calibration, CalibrationTable, Host, errors

Table = tuple[np.ndarray, ...]


def predict(host: Host, table: Table) -> np.ndarray:
    X, y, X_test = table
    return host.regressor(n_estimators=1, random_state=0, device="cpu").fit(X, y).predict(X_test)


@pytest.fixture(scope="module")
def measured(tiny_host: Host, calibration: list[CalibrationTable]) -> retrofit.Carriers:
    return retrofit.measure_carriers(tiny_host, "full", calibration)


@pytest.fixture
def saved(measured: retrofit.Carriers, tmp_path: Path) -> Path:
    return measured.calibration(0.99).save(tmp_path / "tau.json")


@pytest.mark.parametrize("target", [0.9, 0.999])
@pytest.mark.parametrize("variant", ["oa", "full"])
def test_tau_is_what_patch_finds_itself(
    variant: str, target: float, tiny_host: Host, calibration: list[CalibrationTable]
) -> None:
    found = retrofit.calibrate(tiny_host, variant, target_presence=target, tables=calibration)
    patched = retrofit.patch(tiny_host, variant, target_presence=target, tables=calibration)
    assert found.tau == patched.config.tau
    assert found.tables == patched.report.tau_tables
    for settings in ({"target_presence": 0.95}, {"tables": [calibration[0], wider()]}):
        other = {"target_presence": target, "tables": calibration, **settings}
        assert retrofit.calibrate(tiny_host, variant, **other).tau != found.tau


def wider() -> CalibrationTable:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30, 5))
    return CalibrationTable("wider", X, X[:, 0] ** 3)


def test_figures_are_those_of_the_stock_hosts_carriers(
    measured: retrofit.Carriers, tiny_host: Host, calibration: list[CalibrationTable]
) -> None:
    """Beside them, what a host with presence 1 and no eps shows; and presence by its formula."""
    stock_like = retrofit.patch(
        tiny_host, "full", presence="one", eps_den=0.0, tables=calibration
    ).report
    streams = measured.calibration(0.99).streams
    for mine, theirs in zip(streams, stock_like.streams, strict=True):
        for name in ("name", "tokens", "squared_norm_q01", "squared_norm_median"):
            assert getattr(mine, name) == getattr(theirs, name)
        smallest = measured.squared_norms[mine.name].min()
        assert mine.presence_min == pytest.approx(smallest / (smallest + mine.tau))
        assert mine.presence_min <= mine.presence_q01 <= mine.presence_median
        # tau is kept to four significant digits.
        assert mine.presence_q01 == pytest.approx(0.99, abs=1e-5)
        assert mine.null_radius == pytest.approx(np.sqrt(mine.tau / mine.squared_norm_median))


def test_file_patches_as_the_target_does(
    saved: Path, tiny_host: Host, table: Table, calibration: list[CalibrationTable]
) -> None:
    direct = retrofit.patch(tiny_host, "full", target_presence=0.99, tables=calibration)
    read = Calibration.load(saved)
    through_file = retrofit.patch(tiny_host, "full", tau=read, tables=calibration)
    assert through_file.report == direct.report
    assert np.array_equal(predict(through_file, table), predict(direct, table))
    other = retrofit.patch(tiny_host, "full", target_presence=0.9, tables=calibration)
    assert not np.array_equal(predict(other, table), predict(direct, table))


def test_report_keeps_apart_what_tau_and_the_figures_come_from(
    saved: Path, tiny_host: Host, tmp_path: Path
) -> None:
    read = Calibration.load(saved)
    patched = retrofit.patch(tiny_host, "full", tau=read, tables=[wider()])
    assert [item.name for item in patched.report.tau_tables] == ["tiny"]
    assert [(item.name, item.rows, item.columns) for item in patched.report.tables] == [
        ("wider", 30, 5)
    ]
    assert (patched.config.presence, patched.config.target_presence) == ("calibrated", 0.99)
    assert retrofit.load_host(patched.save(tmp_path / "v3.safetensors")).report.tau_tables == (
        patched.report.tau_tables
    )
    fixed = retrofit.patch(tiny_host, "full", tau=1.0, tables=[wider()])
    assert fixed.report.tau_tables == []


def test_a_tables_hash_is_its_numbers(tiny_host: Host) -> None:
    def sha256(X: np.ndarray, y: np.ndarray) -> str:
        table = CalibrationTable("any", X, y)
        (record,) = retrofit.measure_carriers(tiny_host, "oa", [table]).tables
        return record.sha256

    X = np.arange(24.0).reshape(12, 2)
    X[3, 1] = np.nan
    y = np.sin(np.arange(12.0))
    same = np.where(np.isnan(X), -np.nan, X).astype(object)
    assert sha256(X, y) == sha256(same, y.tolist())
    assert len({sha256(X, y), sha256(X[:, ::-1], y), sha256(X, y + 1e-12)}) == 3


def test_another_host_and_other_streams_are_refused(
    measured: retrofit.Carriers, build_host: Callable[..., Host], tiny_host: Host
) -> None:
    full = measured.calibration()
    with pytest.raises(errors.CalibrationError, match=r"host 'tiny'.* calibrate again"):
        retrofit.patch(build_host(seed=1), "full", tau=full)
    with pytest.raises(errors.CalibrationError, match=r"variant 'full'.* of 'oa'.* --variant oa"):
        retrofit.patch(tiny_host, "oa", tau=full)
    with pytest.raises(errors.VariantError, match="exclude each other"):
        retrofit.patch(tiny_host, "full", tau=full, target_presence=0.9)


def digested(content: dict[str, object]) -> str:
    """As a file of this format whose digest is right, whatever else is wrong with it."""
    from retrofit.files.digest import json_sha256

    content = {key: value for key, value in content.items() if key != "content_sha256"}
    return json.dumps({**content, "content_sha256": json_sha256(content)})


SPOILT: dict[str, tuple[Callable[[str], str], str]] = {
    "cut": (lambda text: text[: len(text) // 2], "is not JSON"),
    "empty": (lambda text: "", "is not JSON"),
    "list": (lambda text: "[1, 2]", "holds a list"),
    "foreign": (lambda text: '{"tau": 0.1}', "no calibration"),
    "later format": (
        lambda text: text.replace('"format_version": 1', '"format_version": 2'),
        "format version 2",
    ),
    "edited": (
        lambda text: text.replace('"target_presence": 0.99', '"target_presence": 0.98'),
        "was edited",
    ),
    "surplus field": (lambda text: text.replace("{", '{"mine": 1,', 1), "was edited"),
    "no stream": (lambda text: digested({**json.loads(text), "streams": []}), "'streams'"),
    "no presence": (
        lambda text: digested({**json.loads(text), "target_presence": 1.5}),
        "'target_presence'",
    ),
    "negative tau": (
        lambda text: digested(
            {**json.loads(text), "streams": [{**json.loads(text)["streams"][0], "tau": -1.0}]}
        ),
        "not positive",
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_spoilt_files_are_named_with_the_way_out(kind: str, saved: Path) -> None:
    spoil, told = SPOILT[kind]
    text = saved.read_text()
    assert spoil(text) != text
    saved.write_text(spoil(text))
    with pytest.raises(errors.CalibrationError, match=told) as caught:
        Calibration.load(saved)
    message = str(caught.value)
    assert str(saved) in message
    assert "oretro calibrate" in message


def test_files_that_are_not_there_or_binary_are_named(tmp_path: Path) -> None:
    with pytest.raises(errors.CalibrationError, match=r"gone\.json cannot be read \(No such file"):
        Calibration.load(tmp_path / "gone.json")
    (tmp_path / "weights").write_bytes(b"\x80\x04\xff")
    with pytest.raises(errors.CalibrationError, match="is not JSON"):
        Calibration.load(tmp_path / "weights")


def test_saving_replaces_nothing_unasked(measured: retrofit.Carriers, saved: Path) -> None:
    before = saved.read_bytes()
    other = measured.calibration(0.9)
    with pytest.raises(errors.CalibrationError, match=r"tau\.json exists"):
        other.save(saved)
    assert saved.read_bytes() == before
    other.save(saved, overwrite=True)
    assert Calibration.load(saved) == other
    assert [path.name for path in saved.parent.iterdir()] == ["tau.json"]
    for name, told in {"tau.txt": ".json file", "gone/tau.json": "does not exist"}.items():
        with pytest.raises(errors.CalibrationError, match=told):
            other.save(saved.parent / name)


def test_unfit_hosts_and_targets_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tiny_host: Host, measured: retrofit.Carriers
) -> None:
    patched = retrofit.patch(tiny_host, "full", tau=1.0, tables=[wider()])

    def refuse(*_: object) -> None:
        raise AssertionError("something was measured")

    # The package's attribute of that name is the function.
    monkeypatch.setattr(sys.modules["retrofit.patching.calibrate"], "survey", refuse)
    with pytest.raises(AssertionError, match="measured"):
        retrofit.calibrate(tiny_host, "full")
    with pytest.raises(errors.AlreadyPatchedError):
        retrofit.calibrate(patched, "full")
    with pytest.raises(errors.VariantError, match="no variant"):
        retrofit.calibrate(tiny_host, "half")
    for target in (0.0, 1.0, float("nan")):
        with pytest.raises(errors.CalibrationError, match="strictly between"):
            retrofit.calibrate(tiny_host, "full", target_presence=target)
        with pytest.raises(errors.CalibrationError, match="strictly between"):
            measured.calibration(target)


def test_a_calibration_says_which_versions_made_it(measured: retrofit.Carriers) -> None:
    found = measured.calibration()
    assert found.target_presence == 0.999
    assert {"oretro", "tabpfn", "torch", "python"} <= set(found.versions)


def test_a_full_disk_is_named_and_leaves_the_old_file(
    measured: retrofit.Carriers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = measured.calibration(0.9).save(tmp_path / "tau.json")
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("retrofit.files.atomic.os.fsync", full)
    with pytest.raises(
        errors.CalibrationError, match=r"tau\.json cannot be written \(No space left"
    ):
        measured.calibration(0.99).save(path, overwrite=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
