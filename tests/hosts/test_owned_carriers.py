"""Twins overwrite carriers of their own making only, and let gradients through."""

from __future__ import annotations

import pytest
import torch

from retrofit.contracts import Setting
from retrofit.contracts.module_laws import carriers
from retrofit.contracts.twin_laws import specimens
from retrofit.hosts.registry import generations

pytestmark = pytest.mark.usefixtures("one_thread")

SETTING = Setting("auto", torch.float32)
RUNS = [
    pytest.param(specimen, id=f"{generation.name} {variant} {specimen.name}")
    for generation in generations()
    for variant in generation.variants
    for specimen in specimens(SETTING, generation, variant)
]


@pytest.mark.parametrize("specimen", RUNS)
def test_the_callers_carriers_stay(specimen):
    given = carriers(SETTING, specimen)
    copies = [h.clone() for h in given]
    with torch.inference_mode():
        out = specimen.run(*given)
    assert all(torch.equal(h, copy) for h, copy in zip(given, copies, strict=True))
    assert not torch.equal(out, given[0])


@pytest.mark.parametrize("specimen", [x for x in RUNS if "chunks" not in x.id])
def test_gradients_flow_and_change_no_output(specimen):
    receivers, sources = carriers(SETTING, specimen)
    with torch.no_grad():
        want = specimen.run(receivers, sources)
    leaf = receivers.clone().requires_grad_()
    out = specimen.run(leaf, leaf if specimen.own_sources else sources)
    out.square().sum().backward()
    assert torch.allclose(out, want, atol=1e-4)
    assert leaf.grad.isfinite().all()
    assert leaf.grad.abs().max() > 0
