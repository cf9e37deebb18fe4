"""Closed hosts."""

from __future__ import annotations

import pytest

import retrofit
from retrofit import CalibrationTable, Host, Patched


@pytest.fixture(scope="session")
def tiny_closed(tiny_host: Host, calibration: list[CalibrationTable]) -> Patched:
    return retrofit.patch(tiny_host, "closed", tables=calibration)


@pytest.fixture(scope="session")
def tiny_v3_5_closed(tiny_v3_5: Host, calibration: list[CalibrationTable]) -> Patched:
    return retrofit.patch(tiny_v3_5, "closed", tables=calibration)


@pytest.fixture(params=["tiny_closed", "tiny_v3_5_closed"])
def closed(request: pytest.FixtureRequest) -> Patched:
    """A closed host of each generation in turn."""
    found: Patched = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def mini_closed(mini_host: Host, calibration: list[CalibrationTable]) -> Patched:
    return retrofit.patch(mini_host, "closed", tables=calibration)
