"""Each gate of the grid block, taken out or bent, breaks a law, in every generation that has it."""

from __future__ import annotations

import pytest
import test_twin_laws as bends
import torch

from retrofit.contracts import Setting
from retrofit.contracts.twin_laws import twin_formulas

pytestmark = pytest.mark.usefixtures("one_thread")

WHOLE = {
    "between features",
    "between features, in chunks",
    "between cells, train rows",
    "between cells, train rows in chunks",
    "between cells, making a cache",
}
CACHED = "between cells, from a cache"
ALL = {*WHOLE, "between cells, test rows", CACHED}


@pytest.mark.parametrize(
    ("bend", "variant", "seen_by"),
    [
        (bends._receiver(2), "oa", ALL),
        (bends._receiver(2), "full", ALL),
        (bends._sources(0.5), "oa", ALL),
        (bends._sources(0.5), "closed", ALL),
        (bends._feed_forward(2), "full", WHOLE),
        (bends._feed_forward(2), "oa", set()),
        (bends._norm_without_gate, "full", WHOLE),
        (bends._presence_of_normed_carriers, "full", ALL),
        (bends._presence_of_the_batch, "full", ALL),
        (bends._eps(0.0), "oa", ALL),
        (bends._cache_without_presence, "oa", {CACHED}),
    ],
)
def test_a_bent_gate_of_a_twin_is_seen(bend, variant, seen_by, monkeypatch):
    bend(monkeypatch)
    seen = bends.broken(twin_formulas(Setting("auto", torch.float64, seed=2)))
    for generation in ("v2", "v2.5", "v2.6"):
        where = f"{generation}, {variant}: "
        assert {case.removeprefix(where) for case in seen if case.startswith(where)} == seen_by
