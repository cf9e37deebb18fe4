"""The TabPFN v3 host: its site map, and how its model becomes a patched one and stock again.

Shapes: R rows, B batch, C columns, N train rows, M test rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tabpfn.architectures.interface import PerformanceOptions
from tabpfn.architectures.tabpfn_v3 import (
    Attention,
    CrossAttention,
    ICLAttention,
    TabPFNV3,
    TabPFNV3Cache,
    TabPFNV3Config,
    _DtypeMatchingRMSNorm,
)
from tabpfn.architectures.tabpfn_v3 import MLP as V3MLP
from torch import Tensor, nn

from retrofit.config import RetrofitConfig, Variant
from retrofit.digest import require_digest
from retrofit.errors import NonFiniteOutputError, UnsupportedModeError
from retrofit.hosts.gates import Gates
from retrofit.hosts.kv_cache import PresentV3Cache
from retrofit.hosts.sites import Site, SiteKind
from retrofit.hosts.v3_blocks import BLOCK_TWINS, ORMSNorm

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
_MEMBERS = dict(zip(BLOCK_TWINS, (_CROSS_ATTENTION_BLOCK, _TRANSFORMER_BLOCK, _ICL_BLOCK)))
_BARE_NORMS = ("column_aggregator.out_ln", "output_norm")


# A buffer that stock v3 does not know, so that its strict load refuses a patched state dict.
MARKER = "oretro_format_version"


class OTabPFNV3(TabPFNV3):
    """A TabPFN v3 whose blocks are O-twins."""

    retrofit_config: RetrofitConfig

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """As ``nn.Module``'s, after checking the tensors against the digest in the settings.

        Raises:
            CheckpointError: a weight differs from what was saved.
        """
        require_digest(state_dict, self.retrofit_config.weights_sha256)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def forward(
        self,
        x: Tensor | dict[str, Tensor],
        y: Tensor | dict[str, Tensor] | None,
        *,
        only_return_standard_out: bool = True,
        categorical_inds: list[list[int]] | None = None,
        performance_options: PerformanceOptions | None = None,
        task_type: str | None = None,
        kv_cache: TabPFNV3Cache | None = None,
        return_kv_cache: bool = False,
        x_is_test_only: bool = False,
    ) -> Any:
        """Stock's forward on ``x`` (R, B, C) and ``y`` (N,) or (N, B): logits (M, B, n_out).

        Raises:
            NonFiniteOutputError: a logit is NaN or infinite.
            UnsupportedModeError: ``kv_cache`` was built by a stock model.
        """
        if not (kv_cache is None or kv_cache.is_empty() or isinstance(kv_cache, PresentV3Cache)):
            msg = "the key/value cache was built by a stock model; build it with the patched one"
            raise UnsupportedModeError(msg)
        result = super().forward(
            x,
            y,
            only_return_standard_out=only_return_standard_out,
            categorical_inds=categorical_inds,
            performance_options=performance_options,
            task_type=task_type,
            kv_cache=kv_cache,
            return_kv_cache=return_kv_cache,
            x_is_test_only=x_is_test_only,
        )
        output, cache = result if return_kv_cache else (result, None)
        logits = output if only_return_standard_out else output["standard"]
        # Stock replaces NaN logits by zeros, which look like a prediction.
        if not torch.isfinite(logits).all():
            msg = (
                f"the patched host ({self.retrofit_config.variant}) emitted NaN or infinite logits "
                f"for {int((~torch.isfinite(logits)).any(-1).sum())} of {logits[..., 0].numel()} "
                "test rows; check the inputs' range, the weights and the inference precision"
            )
            raise NonFiniteOutputError(msg)
        return (output, PresentV3Cache.of(cache)) if return_kv_cache else output


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


def site_map(config: TabPFNV3Config) -> list[Site]:
    """Every attention, feed-forward and norm of a v3 host with this configuration."""
    sites = [
        Site(
            name=f"{block}.{attribute}",
            kind=kind,
            stock_class=stock.__name__,
            owner=block,
            owner_class=block_class.__name__,
            twin_class=BLOCK_TWINS[block_class].__name__,
        )
        for block, block_class in blocks(config)
        for attribute, kind, stock in _MEMBERS[block_class]
    ]
    norm = _DtypeMatchingRMSNorm.__name__
    sites += [
        Site(name, "norm", norm, name, norm, ORMSNorm.__name__) for name in _BARE_NORMS
    ]
    return sites


def mismatches(model: TabPFNV3) -> tuple[list[str], list[str]]:
    """Sites that the model lacks, and modules of site classes that the map does not know.

    Both lists hold sentences; a module of another class, even a subclass, counts as missing.
    """
    expected: dict[str, type[nn.Module]] = dict.fromkeys(_BARE_NORMS, _DtypeMatchingRMSNorm)
    for block, block_class in blocks(model.config):
        expected[block] = block_class
        for attribute, _, stock in _MEMBERS[block_class]:
            expected[f"{block}.{attribute}"] = stock
    found = dict(model.named_modules())
    missing = [
        f"{name} should be a {stock.__name__} and is "
        + (f"a {type(found[name]).__name__}" if name in found else "absent")
        for name, stock in expected.items()
        if type(found.get(name)) is not stock
    ]
    extra = [
        f"{name} is a {type(module).__name__} that the map does not know"
        for name, module in found.items()
        if name not in expected and isinstance(module, tuple(set(expected.values())))
    ]
    return missing, extra


def twins(config: TabPFNV3Config, variant: Variant) -> Iterator[tuple[str, type[Any]]]:
    """Qualified name and twin class of every module whose class ``variant`` swaps."""
    for name, stock in blocks(config):
        yield name, BLOCK_TWINS[stock]
    if variant == "full":
        for name in _BARE_NORMS:
            yield name, ORMSNorm


def streams(config: TabPFNV3Config, variant: Variant) -> list[str]:
    """Names of the streams that ``variant`` needs a tau for, as ``module:stream``."""
    return [
        f"{name}:{stream}"
        for name, twin in twins(config, variant)
        for stream in twin.streams
        if variant == "full" or stream != "ffn"
    ]


def swap(model: TabPFNV3, config: RetrofitConfig) -> None:
    """Turn a checked stock model into a patched one, in place.

    Raises:
        KeyError: ``config.tau`` lacks a stream of the model.
    """
    gates = {
        name: Gates.of(config, name, tuple(s for s in twin.streams if _needed(config, s)))
        for name, twin in twins(model.config, config.variant)
    }
    for name, twin in twins(model.config, config.variant):
        module = model.get_submodule(name)
        module.__class__ = twin
        module.gates = gates[name]
    model.__class__ = OTabPFNV3
    model.retrofit_config = config
    model.register_buffer(MARKER, torch.tensor(config.format_version))
    model._nan_safe_output = False


def unswap(model: OTabPFNV3) -> None:
    """Turn a patched model back into the stock one, in place."""
    stock_of = {twin: stock for stock, twin in BLOCK_TWINS.items()} | {
        ORMSNorm: _DtypeMatchingRMSNorm
    }
    for name, twin in twins(model.config, model.retrofit_config.variant):
        module = model.get_submodule(name)
        module.__class__ = stock_of[twin]
        del module.gates
    del model.retrofit_config
    delattr(model, MARKER)
    model.__class__ = TabPFNV3
    model._nan_safe_output = True


def _needed(config: RetrofitConfig, stream: str) -> bool:
    return config.variant == "full" or stream != "ffn"
