"""What is handed in and kept is copied: whoever goes on using it changes nothing here."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch

import retrofit
from retrofit import CalibrationTable, Host

if TYPE_CHECKING:
    from collections.abc import Callable

Table = tuple[np.ndarray, ...]


def logits(host: Host) -> torch.Tensor:
    x = torch.linspace(-1.0, 1.0, 27).reshape(9, 1, 3)
    with torch.no_grad():
        return host.model(x, torch.arange(6.0))


def test_a_host_keeps_a_copy_of_the_model(build_host: Callable[..., Host]) -> None:
    mine = build_host()
    host = Host.from_model(mine.model, mine.inference_config)
    before, unchanged = logits(host), copy.deepcopy(host.inference_config)
    with torch.no_grad():
        for parameter in mine.model.parameters():
            parameter.mul_(2.0)
    assert not torch.equal(logits(mine), before)
    mine.model.half()
    mine.inference_config.SOFTMAX_TEMPERATURE += 1.0
    assert torch.equal(logits(host), before)
    assert host.inference_config == unchanged


def test_a_calibration_table_keeps_copies(build_host: Callable[..., Host], table: Table) -> None:
    host, (X, y) = build_host(), (part.copy() for part in table[:2])
    kept = CalibrationTable("reused", X, y)
    before = retrofit.calibrate(host, "oa", tables=[kept])
    X[:], y[:] = X[::-1] + 1.0, np.arange(len(y))
    assert retrofit.calibrate(host, "oa", tables=[kept]) == before
    assert retrofit.calibrate(host, "oa", tables=[CalibrationTable("new", X, y)]).tau != before.tau


def test_a_patch_keeps_a_copy_of_tau(
    build_host: Callable[..., Host], calibration: list[CalibrationTable]
) -> None:
    host = build_host()
    tau = dict.fromkeys(retrofit.plan(host, "oa").streams, 1.0)
    patched = retrofit.patch(host, "oa", tau=tau, tables=calibration)
    before = logits(patched)
    for stream in tau:
        tau[stream] = 100.0
    assert set(patched.config.tau.values()) == {1.0}
    assert torch.equal(logits(patched), before)
    assert not torch.equal(logits(retrofit.patch(host, "oa", tau=tau, tables=calibration)), before)
