"""Tokens that are exactly zero are NULL: calibration must not take them for the smallest ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

import retrofit

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrofit import CalibrationTable, Host

STREAM = "column_aggregator.blocks.0:carrier"


def test_zero_carriers_are_left_out(
    build_host: Callable[..., Host], calibration: list[CalibrationTable]
) -> None:
    """A CLS token of zeros stands in every row, far more often than one token in a hundred."""
    whole, gapped = build_host(), build_host()
    tokens = gapped.model.column_aggregator.cls_tokens
    with torch.no_grad():
        tokens[0] = 0.0
    before, after = (
        next(
            stream
            for stream in retrofit.calibrate(host, "oa", tables=calibration).streams
            if stream.name == STREAM
        )
        for host in (whole, gapped)
    )
    rows = before.tokens - after.tokens
    assert rows > 0.01 * before.tokens
    assert after.squared_norm_q01 > 0
    assert after.tau > 0
