"""Hosts, patches, reports, calibrations and plans are shown in a few lines, and as data frames."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

import retrofit
from retrofit.hosts.report import SiteReport, StreamReport
from retrofit.hosts.sites import Site


@pytest.fixture(scope="module")
def host():
    return retrofit.load_host("mini")


@pytest.fixture(scope="module")
def patched(host):
    return retrofit.patch(host, "full", tau=1e-3)


def records(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Rows with None where a frame of numbers can only hold NaN."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def test_what_is_made_is_shown_in_few_lines(host, patched) -> None:
    shown = {
        "Host": repr(host),
        "Patched": repr(patched),
        "PatchReport": repr(patched.report),
        "PatchPlan": repr(retrofit.plan(host, "full")),
    }
    for name, text in shown.items():
        assert name in text.splitlines()[0]
        assert "mini" in text.splitlines()[0]
        assert len(text.splitlines()) < 10
        assert len(text) < 1500
    assert patched.sha256[:12] in shown["Host"]
    assert "full" in shown["Patched"]
    assert "null radius: " in shown["PatchReport"]
    assert shown["Host"] != repr(retrofit.Host.from_model(host.model, host.inference_config))


def test_however_much_there_is_to_say(patched) -> None:
    many = dataclasses.replace(patched.report, warnings=["word " * 500] * 40)
    assert len(repr(many).splitlines()) < 10
    assert len(repr(many)) < 1500
    assert "and 37 more warnings" in repr(many)
    plan = retrofit.plan(patched.restore(), "oa")
    refused = retrofit.plan(patched, "oa")
    assert "problem: " in repr(refused)
    assert "problem: " not in repr(plan)
    noted = dataclasses.replace(plan, problems=refused.problems * 30, note="n\n" * 99)
    assert len(repr(noted).splitlines()) < 10
    assert "and 29 more problems" in repr(noted)


def test_a_calibration_is_shown_in_few_lines(patched) -> None:
    report = patched.report
    calibration = retrofit.Calibration(
        variant="full",
        target_presence=0.99,
        host_name="mini",
        host_sha256="f" * 64,
        streams=report.streams,
        tables=report.tables * 99,
        versions={},
    )
    assert len(repr(calibration).splitlines()) < 10
    assert len(repr(calibration)) < 1500
    assert "Calibration: full on mini, presence 0.99" in repr(calibration)


def test_frames_hold_every_site_and_stream(host, patched) -> None:
    report = patched.report
    sites = [SiteReport(**row) for row in records(report.to_frame())]
    assert sites == report.sites
    streams = [StreamReport(**row) for row in records(report.to_frame("streams"))]
    assert streams == report.streams
    plan = retrofit.plan(host, "full")
    assert [Site(**row) for row in records(plan.to_frame())] == plan.sites
    assert [Site(**row) for row in records(plan.to_frame()[1:])] != plan.sites
    empty = dataclasses.replace(plan, sites=[]).to_frame()
    assert list(empty.columns) == list(plan.to_frame().columns)
    with pytest.raises(ValueError, match="sites and streams"):
        report.to_frame("stream")
