"""Every generation of the registry gives what the seam asks for; what one lacks is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tabpfn.model_loading import ModelType, _get_model_source

import retrofit
from retrofit.config import RetrofitConfig
from retrofit.hosts.clone import alias, tensors
from retrofit.hosts.cost import Size
from retrofit.hosts.generation import Generation
from retrofit.hosts.registry import (
    ADAPTERS,
    generation_of,
    generation_of_model,
    generations,
    patched_name,
)
from retrofit.words import VARIANTS

EVERY = pytest.mark.parametrize("generation", list(generations()), ids=lambda g: g.name)


def small(generation: Generation) -> Any:
    torch.manual_seed(0)
    config, unknown = generation.architecture.parse_config(dict(generation.small))
    assert not unknown
    return generation.build(config).eval()


def patched(generation: Generation, model: Any, variant: str) -> Any:
    copied = alias(model)
    tau = dict.fromkeys(generation.streams(generation.config_of(model), variant), 0.5)
    generation.swap(copied, RetrofitConfig(variant, "fixed", tau))
    return copied


def test_the_registry_holds_every_architecture_of_tabpfn() -> None:
    from tabpfn.architectures import ARCHITECTURES

    stock = {name for name in ARCHITECTURES if not name.startswith("oretro_")}
    assert set(ADAPTERS) == stock
    assert {patched_name(name) for name in stock} <= set(ARCHITECTURES)


@EVERY
def test_an_adapter_is_found_by_its_name_and_its_models(generation: Generation) -> None:
    assert generation_of(generation.architecture_name) is generation
    assert generation_of(generation.patched_architecture) is generation
    model = small(generation)
    assert generation_of_model(model) is generation
    assert not generation.is_patched(model)
    for variant in VARIANTS:
        twin = patched(generation, model, variant)
        assert generation_of_model(twin) is generation
        assert generation.is_patched(twin)
    assert type(model) is generation.model_class


@EVERY
def test_a_site_map_is_whole(generation: Generation) -> None:
    model = small(generation)
    assert generation.mismatches(model) == ([], [])
    sites = generation.site_map(generation.config_of(model))
    names = [site.name for site in sites]
    assert len(set(names)) == len(names)
    assert set(generation.looks(generation.config_of(model))) == set(names)
    kinds = {site.kind for site in sites}
    assert kinds == {"attention", "ffn", "norm", "injection", "statistic"}
    # Rows are dropped at the decoder's bias, and a linear map without one absorbs NULL as it is.
    unchanged = {site.name for site in sites if site.kind == "injection" and not site.change}
    assert unchanged <= {"output_projection", "heads.output_projection", "feature_group_embedder"}
    assert all(site.change for site in sites if site.kind == "statistic")
    for variant, own in (("oa", {"attention"}), ("full", {"attention", "ffn", "norm"})):
        assert {
            site.kind for site in generation.site_map(generation.config_of(model), variant)
        } == own
    for site in sites:
        generation.parameters_of(model, site)
    broken = alias(model)
    attention = next(site for site in sites if site.kind == "attention")
    parent, _, last = attention.name.rpartition(".")
    setattr(broken.get_submodule(parent), last, torch.nn.Identity())
    missing, _ = generation.mismatches(broken)
    assert any(attention.name in sentence for sentence in missing)


@EVERY
def test_a_model_becomes_stock_again_to_the_bit(generation: Generation) -> None:
    model = small(generation)
    before = {name: tensor.clone() for name, tensor in tensors(model).items()}
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    for variant in VARIANTS:
        twin = patched(generation, model, variant)
        assert {type(m) for m in twin.modules()} != {type(m) for m in model.modules()}
        generation.unswap(twin)
        assert [type(m) for m in twin.modules()] == [type(m) for m in model.modules()]
        assert {n: p.requires_grad for n, p in twin.named_parameters()} == flags
        after = tensors(twin)
        assert after.keys() == before.keys()
        assert all(torch.equal(after[name], before[name]) for name in before)


@EVERY
def test_stages_cost_and_specimens_are_there(generation: Generation) -> None:
    model = small(generation)
    stages = generation.stages(generation.config_of(model))
    assert stages[0].name == "cells"
    for stage in stages:
        model.get_submodule(stage.module)
        assert stage.label
    cost = generation.cost(generation.config_of(model), "cpu")
    assert 0 < cost.per_table(Size(20, 5, 3)) < cost.per_table(Size(40, 5, 3))
    for variant in VARIANTS:
        assert list(generation.specimens(patched(generation, model, variant)))


@EVERY
def test_releases_are_those_of_tabpfn(generation: Generation) -> None:
    for version in generation.versions:
        source = _get_model_source(version, ModelType.REGRESSOR)
        assert {version.value, *source.filenames} <= set(retrofit.official_names())


def lacking(adapter: type[Generation]) -> set[str]:
    """Attributes that the seam declares and the adapter does not give."""
    return {name for name in Generation.__annotations__ if not hasattr(adapter, name)}


@EVERY
def test_an_adapter_gives_every_attribute(generation: Generation) -> None:
    assert not lacking(type(generation))


def test_what_an_adapter_lacks_is_named() -> None:
    class Half(Generation):
        name = "half"

        def blocks(self, config: Any) -> Any:
            return iter(())

    with pytest.raises(TypeError) as refusal:
        Half()
    missing = Generation.__abstractmethods__ - {"blocks"}
    assert len(missing) >= 9
    assert all(f"{name}" in str(refusal.value) for name in missing)
    assert {"twins", "fingerprints", "block_members", "small"} <= lacking(Half)
    assert "name" not in lacking(Half)
