"""The seam: everything that oretro must know of a TabPFN generation, and what follows from it.

An adapter derives from ``Generation``, says what its generation consists of, and gets its site
map, its streams, and the way from stock to patched and back from here. Nothing outside
``retrofit.hosts`` speaks to an adapter in any other way.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from pydantic import ValidationError
from torch import nn

from retrofit.errors import CheckpointError, UnsupportedHostError, brief
from retrofit.files.seal import require_sealed_config, require_sealed_rest
from retrofit.hosts.fingerprint import require_known
from retrofit.hosts.gates import Gates
from retrofit.hosts.patched_model import MARKER
from retrofit.hosts.registry import patched_name
from retrofit.hosts.sites import VARIANT_KINDS, Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType, ModuleType

    from tabpfn.architectures.interface import ArchitectureConfig, EstimatorBatchBudget
    from tabpfn.architectures.shared.bar_distribution import FullSupportBarDistribution
    from tabpfn.constants import ModelVersion
    from torch import Tensor

    from retrofit.config import RetrofitConfig
    from retrofit.hosts.anatomy import Specimen
    from retrofit.hosts.cost import Cost
    from retrofit.hosts.stages import Look, Stage
    from retrofit.words import SiteKind, Variant


_OF_FULL = ("ffn", "layernorm")
"""How the streams begin that gate feed-forward and norms alone."""


class Member(NamedTuple):
    """A site inside a block, or inside the model: where it stands, what stock has there, and what
    `closed` does there (``Site.change``)."""

    attribute: str
    kind: SiteKind
    stock: type[Any]
    change: str = ""


class Generation(ABC):
    """One TabPFN generation; every method speaks of a configuration or a model of it."""

    name: ClassVar[str]
    """As tabpfn calls the version: ``v3``."""
    architecture_name: ClassVar[str]
    """tabpfn's name of the stock architecture."""
    architecture: ClassVar[ModuleType]
    """tabpfn's module with the stock architecture's ``parse_config`` and ``get_architecture``."""
    versions: ClassVar[tuple[ModelVersion, ...]]
    """Releases of tabpfn's models that have this architecture."""
    model_class: ClassVar[type[Any]]
    config_class: ClassVar[type[Any]]
    patched_config_class: ClassVar[type[Any]]
    """``config_class`` with one more field: ``oretro: RetrofitConfig | None``."""
    patched_classes: ClassVar[Mapping[Variant, type[Any]]]
    """Class of the patched model, for each variant that is offered."""
    block_members: ClassVar[Mapping[type[Any], tuple[Member, ...]]]
    """Sites inside a block, by the block's stock class."""
    twins: ClassVar[Mapping[type[Any], type[Any]]]
    """Twin of each stock class of block or bare norm; twins name their ``streams``."""
    closed_twins: ClassVar[Mapping[type[Any], type[Any]]]
    """Twin of each stock class that `closed` swaps besides those."""
    model_members: ClassVar[tuple[Member, ...]]
    """Sites of the model itself: injections and statistics, in the order of the forward pass."""
    fingerprints: ClassVar[Mapping[str, frozenset[str]]]
    """Sources of the upstream methods that the twins replace or rely on."""
    engine_fingerprints: ClassVar[Mapping[str, frozenset[str]]]
    """Sources of what ``predict_tables`` relies on besides."""
    small: ClassVar[Mapping[str, Any]]
    """Settings of a regressor as small as one with every kind of block can be, for the laws."""
    hides_nan: ClassVar[bool] = False
    """Whether stock models replace NaN in their logits, unless ``_nan_safe_output`` is False."""
    stand_in_modules: ClassVar[tuple[str, ...]]
    """What a stand-in of the closed model needs to take down calls: its first weights, and what
    ``train_statistics`` uses."""

    @abstractmethod
    def blocks(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        """Qualified name and stock class of every block, in the order of the forward pass."""

    @abstractmethod
    def bare_norms(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        """Qualified name and stock class of every norm on the residual stream outside blocks."""

    @abstractmethod
    def closed_modules(self, config: Any) -> Iterator[tuple[str, type[Any]]]:
        """Qualified name and stock class of the modules that `closed` swaps besides."""

    @abstractmethod
    def closed_members(self, config: Any, owner: type[Any]) -> Iterator[Member]:
        """Sites inside a module of ``closed_modules``; an empty attribute is the module itself."""

    @abstractmethod
    def specimens(self, model: Any) -> Iterator[Specimen]:
        """Every kind of twin in a patched model, in every way in which it is called."""

    @abstractmethod
    def stages(self, config: Any) -> list[Stage]:
        """Places of the forward pass at which tokens can be looked at, in its order."""

    @abstractmethod
    def looks(self, config: Any) -> dict[str, Look]:
        """How the audit looks at each site of the map, by its name."""

    @abstractmethod
    def cost(self, config: Any, device_type: str) -> Cost:
        """Multiplications of one forward pass, by the size of a table."""

    @abstractmethod
    def criterion(self, model: Any) -> FullSupportBarDistribution | None:
        """Output distribution that a model in memory carries; None if it carries none."""

    def task_of(self, model: Any) -> str:
        """``regression`` or the classification that a model was made for."""
        task: str = model.task_type
        return task

    drops_constant_columns: ClassVar[bool] = False
    """Whether stock leaves columns of equal numbers out, so that zeros make no token."""
    early_names: ClassVar[tuple[str | None, ...]] = ()
    """What early files of this generation call its architecture; None where they name none. tabpfn
    supplies the preprocessing settings that those lack."""

    def early_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor] | None:  # noqa: ARG002
        """The tensors of an early file under their names of today; None if they are another's."""
        return None

    def config_of(self, model: Any) -> Any:
        """The configuration of a stock model in memory, which that of v3 carries itself.

        Models in oretro's hands carry theirs in all generations.
        """
        return model.config

    @abstractmethod
    def released_config(self) -> Any:
        """What the installed tabpfn would build by default for a regressor."""

    def build(self, config: Any) -> Any:
        """A stock model, its weights drawn, that carries its configuration as ``config``.

        Models of some generations do so by themselves.
        """
        model = self.architecture.get_architecture(config)
        model.config = config
        return model

    def skipped(self, config: Any) -> dict[str, str]:  # noqa: ARG002  (none, mostly)
        """Modules of the sites' classes that no variant replaces, with the reason."""
        return {}

    def run(self, model: Any, x_RBC: Tensor, y_NB: Tensor, **options: Any) -> Any:
        """Call a model of this generation as a regressor: logits (M, B, n_out)."""
        return model(x_RBC, y_NB, **options)

    def members_of_model(self, config: Any) -> tuple[Member, ...]:  # noqa: ARG002
        """``model_members``, where a configuration decides on them."""
        return self.model_members

    def pass_budget(self, model: Any) -> EstimatorBatchBudget:
        """What a pass over many tables may hold; the model's own where its engine has such."""
        budget: EstimatorBatchBudget = model.estimator_batch_budget
        return budget

    def refusal(self, config: Mapping[str, Any]) -> str:
        """Why a checkpoint with this configuration is no regressor; empty if it is one."""
        return "is a classifier" if config.get("max_num_classes", -1) >= 2 else ""

    def _arm(self, model: Any, *, patched: bool) -> None:  # noqa: B027  (most need nothing)
        """Set what a patched model needs otherwise than a stock one, apart from classes."""

    @property
    def patched_architecture(self) -> str:
        """Name under which tabpfn knows the patched architecture."""
        return patched_name(self.architecture_name)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants that are offered."""
        return tuple(self.patched_classes)

    def is_patched(self, model: nn.Module) -> bool:
        """Whether a model of this generation is a patched one."""
        return isinstance(model, tuple(set(self.patched_classes.values())))

    def site_map(self, config: Any, variant: Variant = "closed") -> list[Site]:
        """Every site that ``variant`` replaces: statistics and injections, then the blocks'."""
        return [site for site in self._sites(config) if site.kind in VARIANT_KINDS[variant]]

    def streams(self, config: Any, variant: Variant) -> list[str]:
        """Names of the streams that ``variant`` needs a tau for, as ``module:stream``."""
        return [
            f"{name}:{stream}"
            for name, twin in self._swapped(config, variant)
            for stream in _streams_of(twin, variant)
        ]

    def parameters_of(self, model: nn.Module, site: Site) -> list[nn.Parameter]:
        """The host's weights at a site; none where it is a function of its input alone."""
        path, _, last = site.name.rpartition(".")
        found = getattr(model.get_submodule(path), last)
        if isinstance(found, nn.Parameter):
            return [found]
        return list(found.parameters()) if isinstance(found, nn.Module) else []

    def mismatches(self, model: Any) -> tuple[list[str], list[str]]:
        """Sites that the model lacks, and modules of site classes that the map does not know.

        Both lists hold sentences; a module of another class, even a subclass, counts as missing.
        """
        expected: dict[str, type[Any]] = {
            **dict(self.bare_norms(model.config)),
            **dict(self.closed_modules(model.config)),
        }
        for block, block_class in self.blocks(model.config):
            expected[block] = block_class
            for member in self.block_members[block_class]:
                expected[f"{block}.{member.attribute}"] = member.stock
        found: dict[str, object] = dict(model.named_modules())
        for member in self.members_of_model(model.config):
            if member.stock is not FunctionType:
                expected[member.attribute] = member.stock
                found.setdefault(member.attribute, getattr(model, member.attribute, None))
        known = expected.keys() | self.skipped(model.config).keys()
        extra = [
            f"{name} is a {type(module).__name__} that the map does not know"
            for name, module in found.items()
            if name not in known and type(module) in self._site_classes()
        ]
        missing = [
            f"{name} should be a {stock.__name__} and is "
            + ("absent" if found.get(name) is None else f"a {type(found[name]).__name__}")
            for name, stock in expected.items()
            if type(found.get(name)) is not stock
        ]
        return missing, extra

    def swap(self, model: Any, config: RetrofitConfig) -> None:
        """Turn a checked stock model into a patched one, in place.

        Raises:
            KeyError: ``config.tau`` lacks a stream of the model.
        """
        swapped = list(self._swapped(model.config, config.variant))
        gates = [
            Gates.of(config, name, _streams_of(twin, config.variant)) for name, twin in swapped
        ]
        for (name, twin), own in zip(swapped, gates, strict=True):
            module = model.get_submodule(name)
            module.__class__ = twin
            module.gates = own
        model.__class__ = self.patched_classes[config.variant]
        model.gates = Gates.of(config, "", ())
        # torch picks matrix kernels by this flag, so stock gets it back as it was.
        model.stock_trainable = frozenset(n for n, p in model.named_parameters() if p.requires_grad)
        model.requires_grad_(False)
        model.retrofit_config = config
        model.register_buffer(MARKER, torch.tensor(config.format_version))
        self._arm(model, patched=True)

    def unswap(self, model: Any) -> None:
        """Turn a patched model back into the stock one, in place."""
        stock_of = {twin: stock for stock, twin in {**self.twins, **self.closed_twins}.items()}
        for name, twin in self._swapped(model.config, model.retrofit_config.variant):
            module = model.get_submodule(name)
            module.__class__ = stock_of[twin]
            del module.gates
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name in model.stock_trainable)
        del model.retrofit_config, model.stock_trainable, model.gates
        delattr(model, MARKER)
        model.__class__ = self.model_class
        self._arm(model, patched=False)

    def patched_config(self, stock: Any, retrofit: RetrofitConfig) -> Any:
        """The configuration of a stock host patched with ``retrofit``."""
        return self.patched_config_class(**_fields(stock, self.config_class), oretro=retrofit)

    def stock_config(self, config: Any) -> Any:
        """The configuration of the stock host behind a patched one."""
        return self.config_class(**_fields(config, self.config_class))

    def parse_config(self, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Part of tabpfn's architecture protocol: a patched configuration and its unknown keys.

        Raises:
            CheckpointError: the settings of the retrofit are missing, invalid, or not those that
                were saved.
        """
        require_sealed_config(self.patched_architecture, config)
        try:
            parsed = self.patched_config_class(**config)
        except ValidationError as error:
            msg = f"the configuration of the patched checkpoint is invalid: {brief(error)}"
            raise CheckpointError(msg) from error
        if parsed.oretro is None:
            msg = (
                "the patched checkpoint holds no settings of the retrofit ('oretro' in its config)"
            )
            raise CheckpointError(msg)
        return parsed, parsed.get_unused_config(config)

    def require_whole_file(self, caller: FrameType) -> None:
        """Check all that tabpfn holds of a patched file, whose configuration is checked already.

        tabpfn hands over the configuration alone, so the rest is looked up among the variables of
        its function; the fingerprints say that they are what they were.

        Raises:
            UnsupportedHostError: the installed tabpfn is not one that this was written for.
            CheckpointError: something differs from what was saved.
        """
        if caller.f_globals["__name__"] == "tabpfn.model_loading":
            require_known(self.fingerprints)
            checkpoint = caller.f_locals["checkpoint"]
            require_sealed_rest(checkpoint, checkpoint["state_dict"])

    def get_architecture(self, config: ArchitectureConfig) -> Any:
        """Part of tabpfn's architecture protocol: a patched model whose weights are to come.

        Raises:
            UnsupportedHostError: the installed tabpfn is not one that the twins were written for.
            CheckpointError: a stream has no tau.
        """
        retrofit = config.oretro
        require_known(self.fingerprints)
        if retrofit.variant not in self.patched_classes:
            msg = f"variant {retrofit.variant!r} of TabPFN {self.name} is unknown to this oretro"
            raise UnsupportedHostError(msg)
        model = self.build(config)
        try:
            self.swap(model, retrofit)
        except KeyError as error:
            msg = f"the patched checkpoint has no tau for the stream {error}"
            raise CheckpointError(msg) from error
        return model

    def _swapped(self, config: Any, variant: Variant) -> Iterator[tuple[str, type[Any]]]:
        """Qualified name and twin class of every module whose class ``variant`` swaps."""
        for name, stock in self.blocks(config):
            yield name, self.twins[stock]
        if variant != "oa":
            for name, stock in self.bare_norms(config):
                yield name, self.twins[stock]
        if variant == "closed":
            for name, stock in self.closed_modules(config):
                yield name, self.closed_twins[stock]

    def _sites(self, config: Any) -> Iterator[Site]:
        closed_model = self.patched_classes.get("closed", self.model_class)
        members = self.members_of_model(config)
        yield from self._sites_of("", self.model_class, closed_model, members)
        for name, owner in self.closed_modules(config):
            inside = self.closed_members(config, owner)
            yield from self._sites_of(name, owner, self.closed_twins[owner], inside)
        for name, owner in self.blocks(config):
            yield from self._sites_of(name, owner, self.twins[owner], self.block_members[owner])
        for name, norm in self.bare_norms(config):
            yield from self._sites_of(name, norm, self.twins[norm], [Member("", "norm", norm)])

    @staticmethod
    def _sites_of(
        owner: str, stock: type[Any], twin: type[Any], members: Iterable[Member]
    ) -> Iterator[Site]:
        ends = (owner, stock.__name__, twin.__name__)
        for attribute, kind, found, change in members:
            name = ".".join(part for part in (owner, attribute) if part)
            yield Site(name, kind, found.__name__, *ends, change)

    def _site_classes(self) -> set[type[Any]]:
        inside = {member.stock for members in self.block_members.values() for member in members}
        return inside | set(self.twins) | set(self.closed_twins)


def _streams_of(twin: type[Any], variant: Variant) -> tuple[str, ...]:
    return tuple(
        stream for stream in twin.streams if variant != "oa" or not stream.startswith(_OF_FULL)
    )


def _fields(config: Any, wanted: type[Any]) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(wanted)}
