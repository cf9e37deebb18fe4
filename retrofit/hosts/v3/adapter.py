"""The TabPFN v3 host: its site map, and how its model becomes a patched one and stock again.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from tabpfn.architectures.tabpfn_v3 import MLP as V3MLP
from tabpfn.architectures.tabpfn_v3 import (
    Attention,
    ColumnAggregator,
    CrossAttention,
    ICLAttention,
    InducedSelfAttentionBlock,
    RotaryEmbedding,
    SoftmaxScalingMLP,
    TabPFNV3,
    TabPFNV3Config,
    _DtypeMatchingRMSNorm,
)
from tabpfn.preprocessing.torch.torch_standard_scaler import TorchStandardScaler
from torch import nn

from retrofit.hosts.gates import Gates
from retrofit.hosts.sites import VARIANT_KINDS, Site, SiteKind
from retrofit.hosts.v3.blocks import BLOCK_TWINS, ORMSNorm
from retrofit.hosts.v3.closed import OClosedTabPFNV3
from retrofit.hosts.v3.closed_blocks import OColumnAggregator, OInducedBlock, OSoftmaxScaling
from retrofit.hosts.v3.model import MARKER, OTabPFNV3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrofit.config import RetrofitConfig, Variant

_Member = tuple[str, SiteKind, type[nn.Module]]

_CROSS_ATTENTION_BLOCK: tuple[_Member, ...] = (
    ("attn", "attention", CrossAttention),
    ("mlp", "ffn", V3MLP),
    ("layernorm_q", "norm", _DtypeMatchingRMSNorm),
    ("layernorm_kv", "norm", _DtypeMatchingRMSNorm),
    ("layernorm2", "norm", _DtypeMatchingRMSNorm),
)
_TRANSFORMER_BLOCK: tuple[_Member, ...] = (
    ("attention", "attention", Attention),
    ("mlp", "ffn", V3MLP),
    ("layernorm", "norm", _DtypeMatchingRMSNorm),
    ("layernorm_mlp", "norm", _DtypeMatchingRMSNorm),
)
_ICL_BLOCK: tuple[_Member, ...] = (
    ("icl_attention", "attention", ICLAttention),
    *_TRANSFORMER_BLOCK[1:],
)
_MEMBERS = dict(
    zip(BLOCK_TWINS, (_CROSS_ATTENTION_BLOCK, _TRANSFORMER_BLOCK, _ICL_BLOCK), strict=True)
)
_BARE_NORMS = ("column_aggregator.out_ln", "output_norm")
_CLOSED_TWINS: dict[type[Any], type[Any]] = {
    InducedSelfAttentionBlock: OInducedBlock,
    ColumnAggregator: OColumnAggregator,
    SoftmaxScalingMLP: OSoftmaxScaling,
}
_MODEL_SITES: tuple[tuple[str, SiteKind, type[Any]], ...] = (
    ("standard_scaler", "statistic", TorchStandardScaler),
    ("_group_features", "statistic", FunctionType),
    ("_prepare_y", "statistic", FunctionType),
    ("x_embed", "injection", nn.Linear),
    ("col_y_encoder", "injection", nn.Linear),
    ("icl_y_encoder", "injection", nn.Linear),
    ("output_projection", "injection", nn.Sequential),
)


def blocks(config: TabPFNV3Config) -> Iterator[tuple[str, type[nn.Module]]]:
    """Qualified name and stock class of every block, in the order of the forward pass."""
    cross_block, transformer_block, icl_block = BLOCK_TWINS
    for layer in range(config.dist_embed_num_blocks):
        for half in (1, 2):
            name = f"feature_distribution_embedder.layers.{layer}.cross_attn_block{half}"
            yield name, cross_block
    for layer in range(config.feat_agg_num_blocks):
        yield f"column_aggregator.blocks.{layer}", transformer_block
    for layer in range(config.nlayers):
        yield f"icl_blocks.{layer}", icl_block


def site_map(config: TabPFNV3Config, variant: Variant = "closed") -> list[Site]:
    """Every site that ``variant`` replaces in a v3 host with this configuration."""
    return [site for site in _sites(config) if site.kind in VARIANT_KINDS[variant]]


def parameters_of(model: TabPFNV3, site: Site) -> list[nn.Parameter]:
    """The host's weights at a site; none where it is a function of its input alone."""
    *path, last = site.name.split(".")
    found = getattr(model.get_submodule(".".join(path)), last)
    if isinstance(found, nn.Parameter):
        return [found]
    return list(found.parameters()) if isinstance(found, nn.Module) else []


def mismatches(model: TabPFNV3) -> tuple[list[str], list[str]]:
    """Sites that the model lacks, and modules of site classes that the map does not know.

    Both lists hold sentences; a module of another class, even a subclass, counts as missing.
    """
    expected: dict[str, type[nn.Module]] = dict.fromkeys(_BARE_NORMS, _DtypeMatchingRMSNorm)
    expected |= dict(_closed_modules(model.config))
    for block, block_class in blocks(model.config):
        expected[block] = block_class
        for attribute, _, stock in _MEMBERS[block_class]:
            expected[f"{block}.{attribute}"] = stock
    found: dict[str, object] = dict(model.named_modules())
    extra = [
        f"{name} is a {type(module).__name__} that the map does not know"
        for name, module in found.items()
        if name not in expected and isinstance(module, tuple(set(expected.values())))
    ]
    for name, _, stock in _MODEL_SITES:
        if stock is not FunctionType:
            expected[name] = stock
            found[name] = getattr(model, name, None)
    missing = [
        f"{name} should be a {stock.__name__} and is "
        + ("absent" if found.get(name) is None else f"a {type(found[name]).__name__}")
        for name, stock in expected.items()
        if type(found.get(name)) is not stock
    ]
    return missing, extra


def twins(config: TabPFNV3Config, variant: Variant) -> Iterator[tuple[str, type[Any]]]:
    """Qualified name and twin class of every module whose class ``variant`` swaps."""
    for name, stock in blocks(config):
        yield name, BLOCK_TWINS[stock]
    if variant != "oa":
        for name in _BARE_NORMS:
            yield name, ORMSNorm
    if variant == "closed":
        for name, stock in _closed_modules(config):
            yield name, _CLOSED_TWINS[stock]


def streams(config: TabPFNV3Config, variant: Variant) -> list[str]:
    """Names of the streams that ``variant`` needs a tau for, as ``module:stream``."""
    return [
        f"{name}:{stream}"
        for name, twin in twins(config, variant)
        for stream in _streams_of(twin, variant)
    ]


def swap(model: TabPFNV3, config: RetrofitConfig) -> None:
    """Turn a checked stock model into a patched one, in place.

    Raises:
        KeyError: ``config.tau`` lacks a stream of the model.
    """
    gates = {
        name: Gates.of(config, name, _streams_of(twin, config.variant))
        for name, twin in twins(model.config, config.variant)
    }
    for name, twin in twins(model.config, config.variant):
        module = model.get_submodule(name)
        module.__class__ = twin
        module.gates = gates[name]
    model.__class__ = OClosedTabPFNV3 if config.variant == "closed" else OTabPFNV3
    # torch picks matrix kernels by this flag, so stock gets it back as it was.
    model.stock_trainable = frozenset(n for n, p in model.named_parameters() if p.requires_grad)
    model.requires_grad_(False)
    model.retrofit_config = config
    model.register_buffer(MARKER, torch.tensor(config.format_version))
    model._nan_safe_output = False


def unswap(model: OTabPFNV3) -> None:
    """Turn a patched model back into the stock one, in place."""
    stock_of = {twin: stock for stock, twin in (BLOCK_TWINS | _CLOSED_TWINS).items()}
    stock_of[ORMSNorm] = _DtypeMatchingRMSNorm
    for name, twin in twins(model.config, model.retrofit_config.variant):
        module = model.get_submodule(name)
        module.__class__ = stock_of[twin]
        del module.gates
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in model.stock_trainable)
    del model.retrofit_config, model.stock_trainable
    delattr(model, MARKER)
    model.__class__ = TabPFNV3
    model._nan_safe_output = True


def _streams_of(twin: type[Any], variant: Variant) -> tuple[str, ...]:
    return tuple(stream for stream in twin.streams if variant != "oa" or stream != "ffn")


def _closed_modules(config: TabPFNV3Config) -> Iterator[tuple[str, type[Any]]]:
    """Qualified name and stock class of the modules that `closed` swaps besides the blocks."""
    for layer in range(config.dist_embed_num_blocks):
        name = f"feature_distribution_embedder.layers.{layer}"
        yield name, InducedSelfAttentionBlock
        yield f"{name}.cross_attn_block1.attn.softmax_scaling_layer", SoftmaxScalingMLP
    yield "column_aggregator", ColumnAggregator
    for layer in range(config.nlayers):
        yield f"icl_blocks.{layer}.icl_attention.softmax_scaling_layer", SoftmaxScalingMLP


def _sites(config: TabPFNV3Config) -> Iterator[Site]:
    for name, kind, stock in _MODEL_SITES:
        yield Site(name, kind, stock.__name__, "", TabPFNV3.__name__, OClosedTabPFNV3.__name__)
    for name, owner in _closed_modules(config):
        ends = (owner.__name__, _CLOSED_TWINS[owner].__name__)
        if owner is InducedSelfAttentionBlock:
            yield Site(f"{name}.inducing_vectors", "injection", "Parameter", name, *ends)
        elif owner is ColumnAggregator:
            yield Site(f"{name}.cls_tokens", "injection", "Parameter", name, *ends)
            if config.use_rope:
                yield Site(f"{name}.rope", "injection", RotaryEmbedding.__name__, name, *ends)
        else:
            yield Site(name, "statistic", owner.__name__, name, *ends)
    for name, block_class in blocks(config):
        ends = (block_class.__name__, BLOCK_TWINS[block_class].__name__)
        for attribute, kind, stock in _MEMBERS[block_class]:
            yield Site(f"{name}.{attribute}", kind, stock.__name__, name, *ends)
    norm = _DtypeMatchingRMSNorm.__name__
    for name in _BARE_NORMS:
        yield Site(name, "norm", norm, name, norm, ORMSNorm.__name__)
