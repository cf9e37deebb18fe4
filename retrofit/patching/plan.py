"""What a patch would change, and every reason not to, before anything is touched."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrofit.config import require_variant
from retrofit.errors import (
    AlreadyPatchedError,
    RetrofitError,
    SiteMismatchError,
    TrainingModeError,
    UnsupportedHostError,
)
from retrofit.hosts.display import clipped, counted, frame
from retrofit.hosts.fingerprint import unsupported
from retrofit.hosts.host import Host, HostDescription
from retrofit.hosts.sites import VARIANT_KINDS, Site, counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from torch import nn

    from retrofit.hosts.generation import Generation
    from retrofit.words import SiteKind, Variant


@dataclass(frozen=True)
class Problem:
    """One reason to refuse a patch."""

    error: type[RetrofitError]
    message: str


@dataclass(frozen=True)
class PatchPlan:
    """What ``patch`` would do to a host; made without its weights."""

    host: str
    variant: Variant
    sites: list[Site]
    """Sites that would be replaced: statistics and injections, then the blocks in their order."""
    skipped: dict[str, str]
    """Sites that would stay as they are, with the reason."""
    streams: list[str]
    """Streams that need a tau, as ``module:stream``."""
    problems: list[Problem]
    note: str = ""

    def __repr__(self) -> str:
        what = f"{self.variant} on {clipped(self.host)}, {counted(self.counts)}"
        streams, kept = len(self.streams), len(self.skipped)
        lines = [f"PatchPlan: {what}, {streams} streams; {kept} sites stay as they are"]
        lines += [f"problem: {clipped(problem.message)}" for problem in self.problems[:1]]
        if len(self.problems) > 1:
            lines.append(f"and {len(self.problems) - 1} more problems")
        if self.note:
            lines.append(f"note: {clipped(self.note)}")
        return "\n ".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per site that would be replaced, with the site's fields."""
        return frame(self.sites, Site)

    @property
    def counts(self) -> dict[SiteKind, int]:
        """How many sites of each kind would be replaced."""
        return counts(self.sites)

    def require_no_problem(self) -> None:
        """Raise the first problem's error, with every message in it.

        Raises:
            RetrofitError: the subclass that fits the first problem.
        """
        if self.problems:
            messages = "; ".join(problem.message for problem in self.problems)
            msg = f"host {self.host!r} cannot be patched: {messages}"
            raise self.problems[0].error(msg)


def plan(host: Host | HostDescription | str | os.PathLike[str], variant: Variant) -> PatchPlan:
    """Every site that ``variant`` would replace in ``host``, and every reason to refuse.

    A name or a path is described from its file's header; its weights are not read.

    Raises:
        VariantError: there is no such variant.
        UnsupportedHostError: ``host`` is neither a host nor the name of one.
        HostNotFoundError, CheckpointError: as ``describe_host``.
    """
    require_variant(variant)
    if isinstance(host, (str, os.PathLike)):
        from retrofit.patching.load import describe_host

        host = describe_host(host)
    if not isinstance(host, (Host, HostDescription)):
        msg = (
            f"expected a host, got {_describe(host)}; make one with retrofit.load_host(name) or "
            "retrofit.Host.from_model(model, inference_config)"
        )
        raise UnsupportedHostError(msg)

    generation, config = host.generation, host.architecture_config
    sites = generation.site_map(config, variant)
    return PatchPlan(
        host=host.name,
        variant=variant,
        sites=sites,
        skipped={
            **{
                site.name: f"variant {variant} leaves {site.kind} sites as they are"
                for site in generation.site_map(config)
                if site.kind not in VARIANT_KINDS[variant]
            },
            **generation.skipped(config),
        },
        streams=generation.streams(config, variant),
        problems=list(_problems(host, variant)),
        note=host.note,
    )


def _problems(host: Host | HostDescription, variant: Variant) -> Iterator[Problem]:
    generation = host.generation
    reason = unsupported(generation.fingerprints)
    if reason:
        yield Problem(UnsupportedHostError, reason)
    if variant not in generation.variants:
        offered = ", ".join(generation.variants)
        msg = f"TabPFN {generation.name} is offered as {offered} only"
        yield Problem(UnsupportedHostError, msg)
    if isinstance(host, HostDescription):
        if host.patched:
            yield Problem(AlreadyPatchedError, f"{host.path} is a patched checkpoint already")
        return
    yield from _model_problems(host.model, generation)


def _model_problems(model: Any, generation: Generation) -> Iterator[Problem]:
    if generation.is_patched(model):
        variant = model.retrofit_config.variant
        yield Problem(
            AlreadyPatchedError,
            f"it is patched with {variant!r} already; patch the stock host (patched.restore())",
        )
        return
    stock = generation.model_class
    if type(model) is not stock:
        msg = f"it is a {type(model).__name__}, not a {stock.__name__}"
        yield Problem(UnsupportedHostError, msg)
        return
    missing, extra = generation.mismatches(model)
    if missing or extra:
        yield Problem(SiteMismatchError, "; ".join(missing + extra))
    training = [name or "the model" for name, module in model.named_modules() if module.training]
    if training:
        yield Problem(
            TrainingModeError,
            f"{training[0]} and {len(training) - 1} more modules are in training mode; "
            "call model.eval() first",
        )
    for name, module in model.named_modules():
        reason = _interference(module)
        if reason:
            yield Problem(UnsupportedHostError, f"{name or 'the model'} {reason}")


def _interference(module: nn.Module) -> str | None:
    """Why a copy of ``module`` could compute something else than its class says."""
    if "forward" in vars(module):
        return "has a forward of its own, which copies would share; remove it"
    if module._forward_hooks or module._forward_pre_hooks:
        return "has forward hooks, which a twin would not run as before; remove them"
    return None


def _describe(thing: object) -> str:
    fitted = "a fitted " if hasattr(thing, "executor_") else ""
    return f"{fitted}{type(thing).__name__}"
