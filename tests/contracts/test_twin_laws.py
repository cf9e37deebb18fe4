"""Each gate of a twin, of a module and of a function, taken out or bent, breaks a law."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from retrofit.contracts import FUNCTION_LAWS, MODULE_LAWS, Setting
from retrofit.contracts.block_reference import double, presence
from retrofit.contracts.module_laws import carriers, module_specimens
from retrofit.contracts.twin_laws import figures_of, specimens, twin_formulas
from retrofit.hosts.gates import Gates
from retrofit.hosts.kv_cache import PresentKVCacheEntry
from retrofit.hosts.prenorm.adapter import PrenormGeneration
from retrofit.hosts.registry import generations
from retrofit.ops import ffn, inject, norm
from retrofit.ops.attention import layer

pytestmark = pytest.mark.usefixtures("one_thread")

FLOAT64 = Setting("auto", torch.float64, seed=2)
FLOAT32 = Setting("auto", torch.float32, seed=2)


def broken(figures):
    return {x.case for x in figures if not x.holds}


def cases(figures):
    return {x.case for x in figures}


@pytest.mark.parametrize("setting", [FLOAT64, FLOAT32], ids=["float64", "float32"])
def test_twins_follow_their_formulas(setting):
    figures = twin_formulas(setting)
    assert len(cases(figures)) >= 3 * 9
    assert not broken(figures)
    assert any(x.linf > 0 for x in figures)


def test_presences_are_fractional_and_mixed_within_a_batch():
    twins = [twin for each in generations() for twin in specimens(FLOAT64, each, "full")]
    for specimen in [*twins, *module_specimens(FLOAT64)]:
        for h, stream in zip(carriers(FLOAT64, specimen), _streams(specimen), strict=True):
            p = presence(double(h), specimen.tau[stream])
            assert ((p == 0) | ((p > 0.1) & (p < 0.9))).all()
            assert (p.max(-1) - p[p > 0].min() > 0.2).all()
        assert len(set(specimen.tau.values())) == len(specimen.tau)


def _streams(specimen):
    first = specimen.steps[0]
    return first.stream, getattr(first, "sources", first.stream)


def bent(monkeypatch, owner, name, change):
    """Replace a method by ``change(original, self, ...)``."""
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kw: change(original, *args, **kw))


def _receiver(power):
    def bend(monkeypatch):
        def attend(f, self, *tensors):
            return f(self, *tensors[:-1], tensors[-1] ** power)

        bent(monkeypatch, Gates, "attend", attend)

    return bend


def _sources(power):
    def bend(monkeypatch):
        def attend(f, self, attribute, q, k, v, p_BJ, p_BS):
            return f(self, attribute, q, k, v, p_BJ**power, p_BS)

        bent(monkeypatch, Gates, "attend", attend)

    return bend


def _forward_cross_without_gate(monkeypatch):
    def ungated(f, self, *args):
        gates = self.gates
        self.gates = _Open(**vars(gates))
        try:
            return f(self, *args)
        finally:
            self.gates = gates

    for generation in generations():
        for twin in generation.twins.values():
            if hasattr(twin, "forward_cross"):
                bent(monkeypatch, twin, "forward_cross", ungated)


class _Open(Gates):
    def attend(self, *tensors):
        return super().attend(*tensors[:-1], None)


def _feed_forward(power):
    def bend(monkeypatch):
        def parts(f, self, *args):
            update, p = f(self, *args)
            return update, None if p is None or power == 0 else p**power

        bent(monkeypatch, Gates, "feed_forward_parts", parts)

    return bend


def _norm_without_gate(monkeypatch):
    bent(
        monkeypatch,
        Gates,
        "norm",
        lambda f, self, *args: f(dataclasses.replace(self, full=False), *args),
    )


def _norms_gated_in_oa(monkeypatch):
    def gated(f, self, norm, attribute, h, p, *n):
        out = f(self, norm, attribute, h, p, *n)
        return out if p is None else out * p.unsqueeze(-1)

    bent(monkeypatch, Gates, "norm", gated)


def _norm_by_another_squared_norm(monkeypatch):
    def bend(f, self, norm, attribute, h, p, n=None):
        return f(self, norm, attribute, h, p, n if n is None else n * (1 + 1e-4))

    bent(monkeypatch, Gates, "norm", bend)


def _presence_of_normed_carriers(monkeypatch):
    def normed(f, self, stream, h, n=None):
        return f(self, stream, nn.functional.rms_norm(h, h.shape[-1:]))

    bent(monkeypatch, Gates, "presence", normed)


def _presence_of_another_stream(monkeypatch):
    def swapped(f, self, stream, h, *n):
        return f(self, {"receiver": "source", "source": "receiver"}.get(stream, stream), h, *n)

    bent(monkeypatch, Gates, "presence", swapped)


def _presence_of_the_batch(monkeypatch):
    def mean(f, self, stream, h, *n):
        p = f(self, stream, h, *n)
        return p.mean().expand_as(p) * (p > 0)

    bent(monkeypatch, Gates, "presence", mean)


def _eps(eps):
    def bend(monkeypatch):
        bent(
            monkeypatch,
            Gates,
            "attend",
            lambda f, self, *qkv: f(dataclasses.replace(self, eps_den=eps), *qkv),
        )

    return bend


def _cache_without_presence(monkeypatch):
    def forgetful(f, self, key, value, presence):
        f(self, key=key, value=value, presence=torch.ones_like(presence))

    bent(monkeypatch, PresentKVCacheEntry, "__init__", forgetful)


def _one_source_more_counted(monkeypatch):
    bent(monkeypatch, Gates, "source_count", lambda f, self, p: f(self, p) + 1)


def _all_sources_counted(monkeypatch):
    bent(monkeypatch, Gates, "source_count", lambda f, self, p: p.shape[1])


def _positions_by_index(monkeypatch):
    def rotate(f, self, *tokens):
        return f(dataclasses.replace(self, closed=False), *tokens)

    bent(monkeypatch, Gates, "rotate", rotate)


def _no_positions(monkeypatch):
    bent(monkeypatch, Gates, "rotate", lambda f, self, rope, t, p: t)


ATTENTIONS = {
    "cross",
    "self",
    "self, in chunks",
    "forward_cross",
    "ICL, train rows",
    "ICL, test rows",
    "ICL, test rows in chunks",
    "ICL, making a cache",
    "ICL, from a cache",
}
SELF = {"self", "self, in chunks", "forward_cross"}
FEED_FORWARDS = ATTENTIONS | {"before the head"}
ALL = FEED_FORWARDS | {"bare norm"}


@pytest.mark.parametrize(
    ("bend", "variant", "seen_by"),
    [
        (_receiver(2), "oa", ATTENTIONS),
        (_receiver(2), "full", ATTENTIONS),
        (_receiver(0.5), "full", ATTENTIONS),
        (_receiver(0), "full", ATTENTIONS),
        (_sources(0.5), "oa", ATTENTIONS),
        (_sources(2), "full", ATTENTIONS),
        (_sources(0), "full", ATTENTIONS),
        (_forward_cross_without_gate, "oa", {"forward_cross"}),
        (_forward_cross_without_gate, "full", {"forward_cross"}),
        (_feed_forward(0), "full", FEED_FORWARDS),
        (_feed_forward(0.5), "full", FEED_FORWARDS),
        (_feed_forward(2), "full", FEED_FORWARDS),
        (_norm_by_another_squared_norm, "oa", FEED_FORWARDS),
        (_norm_by_another_squared_norm, "full", ALL),
        (_norm_without_gate, "full", ALL),
        (_norms_gated_in_oa, "oa", ATTENTIONS),
        (_presence_of_normed_carriers, "oa", ATTENTIONS),
        (_presence_of_normed_carriers, "full", ALL),
        (_presence_of_another_stream, "oa", {"cross"}),
        (_presence_of_the_batch, "full", ALL),
        (_eps(0.0), "oa", ATTENTIONS),
        (_eps(1e-8), "full", ATTENTIONS),
        (_cache_without_presence, "oa", {"ICL, from a cache"}),
        (_one_source_more_counted, "full", ATTENTIONS - SELF),
        (_no_positions, "full", SELF),
        (_all_sources_counted, "closed, declared", ATTENTIONS - SELF),
        (_positions_by_index, "closed, declared", SELF),
    ],
)
@pytest.mark.parametrize("setting", [FLOAT64, FLOAT32], ids=["float64", "float32"])
def test_a_bent_gate_of_a_twin_is_seen(bend, variant, seen_by, setting, monkeypatch):
    bend(monkeypatch)
    for generation in generations():
        if not isinstance(generation, PrenormGeneration):
            continue
        figures = figures_of(setting, generation, variant.partition(",")[0])
        start = f"{generation.name}, {variant}: "
        seen, there = (
            {case.removeprefix(start) for case in of if case.startswith(start)}
            for of in (broken(figures), cases(figures))
        )
        assert seen == seen_by & there
        assert seen


@pytest.mark.parametrize("power", [0, 0.5, 2])
@pytest.mark.parametrize(
    ("module", "name", "seen_by"),
    [
        (norm, "gate", {"onorm, LayerNorm", "onorm, RMSNorm", "ONorm, layer", "ONorm, rms"}),
        (ffn, "add_gated", {"offn", "offn, LayerNorm", "OFFN", "OFFN, LayerNorm"}),
        (inject, "add_gated", {"oinject", "OInject"}),
        (layer, "gate", {"OAttention", "OAttention, cross"}),
    ],
)
def test_a_bent_gate_of_an_operator_is_seen(module, name, seen_by, power, monkeypatch):
    laws = [*FUNCTION_LAWS.values(), *MODULE_LAWS.values()]
    assert not broken(figure for law in laws for figure in law(FLOAT64))
    bent(monkeypatch, module, name, lambda f, *tensors: f(*tensors[:-1], tensors[-1] ** power))
    seen = broken(figure for law in laws for figure in law(FLOAT64))
    assert seen_by <= {case for case in seen if "Transformer" not in case}


def test_an_answering_bias_is_seen(monkeypatch):
    monkeypatch.setattr(layer, "receiver_presence", lambda p_BS, p_BJ, mask: p_BS)
    seen = broken(MODULE_LAWS["biased_empty_support"](FLOAT64))
    assert seen == cases(MODULE_LAWS["biased_empty_support"](FLOAT64))


def test_a_presence_that_is_small_and_not_zero_at_null_is_seen(monkeypatch):
    def never_zero(f, self, *args):
        return f(self, *args).clamp(min=1e-14)

    bent(monkeypatch, Gates, "presence", never_zero)
    nulls = [x for x in twin_formulas(FLOAT64) if x.law == "NULL token"]
    awake = {x.case for x in nulls if not x.holds}
    # Zero stays zero in a norm, and without biases, whatever the gate is.
    absorbing = (": bare norm", ": before the head")
    assert awake == {x.case for x in nulls if not x.case.endswith(absorbing)}
