"""A closed host for the tests of removal."""

from __future__ import annotations

import pytest

import retrofit
from retrofit import CalibrationTable, Host, Patched


@pytest.fixture(scope="session")
def closed_host(tiny_host: Host, calibration: list[CalibrationTable]) -> Patched:
    return retrofit.patch(tiny_host, "closed", tables=calibration)
