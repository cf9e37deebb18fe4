"""Memory of the fused kernel grows with S + J, measured in processes of their own."""

from __future__ import annotations

import sys

import pytest

from experiments.attention_memory import BOUND, measure_memory


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read on Linux")
def test_long_attention_needs_little_more_than_torchs():
    """S = 512, J = 100,000, float32; a copy of keys and values is seen where there is one."""
    torchs, ours, with_absent, with_copy = measure_memory()
    assert torchs.peak_mib > 97  # queries, keys and values are 98 MiB
    assert ours.kernel == with_absent.kernel == "fused_lse"
    assert ours.ratio <= BOUND
    assert with_absent.ratio <= BOUND
    assert with_copy.ratio > 1.5
