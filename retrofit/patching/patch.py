"""Plan, check, clone, swap, report: how a stock host becomes a patched one."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import torch
from pydantic import TypeAdapter, ValidationError
from tabpfn.inference_config import InferenceConfig
from tabpfn.model_loading import resolve_model_version
from torch import Tensor

from retrofit.closed.regressor import ClosedRegressor
from retrofit.config import PatchSettings, RetrofitConfig, explained
from retrofit.errors import CheckpointError, VariantError
from retrofit.files.checkpoint import write_patched
from retrofit.files.paths import expand_home
from retrofit.files.seal import REPORT
from retrofit.hosts.clone import alias, tensors
from retrofit.hosts.display import clipped
from retrofit.hosts.host import Host
from retrofit.hosts.patched_model import MARKER
from retrofit.hosts.regressor import HostRegressor
from retrofit.hosts.report import (
    EPS_SHARE_WARNING,
    RARE_TOKENS_WARNING,
    PatchReport,
    SiteReport,
    StreamReport,
    TableRecord,
    package_versions,
)
from retrofit.hosts.sites import VARIANT_KINDS
from retrofit.patching.calibrate import (
    CalibrationTable,
    Survey,
    active,
    calibrate,
    record,
    survey,
    synthetic_tables,
)
from retrofit.patching.calibration import Calibration
from retrofit.patching.plan import PatchPlan, plan

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from retrofit.words import PresenceMode, Variant


@dataclass(frozen=True, eq=False, kw_only=True)
class Patched(Host):
    """A host whose attention, or attention, feed-forward and norms, or all of it, are O-closed.

    ``sha256`` is that of the stock host it was made from.
    """

    report: PatchReport

    def __repr__(self) -> str:
        return f"<Patched {clipped(self.name)}: {self._summary}\n {self.report!r}>"

    @property
    def config(self) -> RetrofitConfig:
        """The settings of the retrofit."""
        return self.report.config

    @property
    def variant(self) -> Variant:
        """`oa`, `full` or `closed`."""
        return self.config.variant

    @property
    def _regressor_class(self) -> type[HostRegressor]:
        return ClosedRegressor if self.variant == "closed" else HostRegressor

    def restore(self) -> Host:
        """The stock host, its weights bit-identical to those before the patch."""
        model = alias(self.model)
        self.generation.unswap(model)
        model.config = self.generation.stock_config(self.architecture_config)
        stock = {field.name: getattr(self, field.name) for field in dataclasses.fields(Host)}
        stock |= {"model": model, "architecture_config": model.config}
        return Host(**stock)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a ``.safetensors`` file that ``load_host`` and tabpfn itself can load.

        Every weight keeps the dtype of the stock file.

        Raises:
            CheckpointError: the file cannot be written there, or the model was cast to a dtype
                that cannot hold its weights.
        """
        weights = self._stored_tensors()
        generation = self.generation
        stock = generation.stock_config(self.architecture_config)
        patched_config = TypeAdapter(generation.patched_config_class)
        fields = {
            "architecture_name": generation.patched_architecture,
            "config": patched_config.dump_python(
                generation.patched_config(stock, self.config), mode="json"
            ),
            "inference_config": TypeAdapter(InferenceConfig).dump_python(
                self.inference_config, mode="json"
            ),
            REPORT: self.report.to_dict(),
        }
        target = expand_home(path)
        self._warn_of_name(target)
        write_patched(target, {**weights, **self.criterion_state}, fields, overwrite=overwrite)
        return target

    def _warn_of_name(self, path: Path) -> None:
        version = resolve_model_version(path)
        if version not in self.generation.versions:
            warnings.warn(
                f"tabpfn reads a model's version from its file name, and {path.name!r} says "
                f"{version.value}: it applies that version's row limits; put "
                f"{self.generation.name!r} into the name",
                stacklevel=3,
            )

    def _stored_tensors(self) -> dict[str, Tensor]:
        stored = {}
        for name, tensor in tensors(self.model).items():
            if name == MARKER:
                stored[name] = torch.tensor(self.config.format_version)
                continue
            source = self.dtypes[name]
            if torch.promote_types(tensor.dtype, source) != tensor.dtype:
                msg = (
                    f"{name} was {source} in the stock host and is {tensor.dtype} now; save the "
                    "patched host before casting it"
                )
                raise CheckpointError(msg)
            stored[name] = tensor.to(source)
        return stored


def patch(
    host: Host,
    variant: Variant | PatchSettings,
    *,
    tables: Sequence[CalibrationTable] | None = None,
    **settings: Any,
) -> Patched:
    """Clone a stock host and swap its sites for their O-twins. The host itself is not changed.

    Args:
        host: A stock host.
        variant: ``oa``, ``full`` or ``closed``; or the settings as a whole.
        tables: To calibrate and report on; None for seeded synthetic ones.
        settings: ``tau``, ``presence``, ``target_presence``, ``eps_den`` and ``eps_mode``, as
            ``retrofit.PatchSettings`` describes them.

    Raises:
        RetrofitError: the first reason not to patch; nothing was touched.
        CalibrationError: tau cannot be set from the tables, or ``tau`` is a calibration of
            another host or of other streams.
        VariantError: the settings contradict each other, or are of another type or out of range.
    """
    if isinstance(variant, PatchSettings):
        asked = dataclasses.replace(variant, **settings)
    else:
        asked = PatchSettings.of(variant, **settings)
    the_plan = plan(host, asked.variant)
    the_plan.require_no_problem()
    tables = synthetic_tables() if tables is None else _listed(tables)
    tau = asked.tau
    if tau is None and asked.presence is None:
        target = asked.calibrated_presence
        tau = calibrate(host, asked.variant, target_presence=target, tables=tables)
    elif isinstance(tau, Calibration):
        tau.require_fits(host, asked.variant)
    try:
        config = RetrofitConfig(
            variant=asked.variant,
            presence=_mode(tau),
            tau=_tau_by_stream(tau, the_plan.streams),
            eps_den=asked.eps_den,
            eps_mode=asked.eps_mode,
            target_presence=tau.target_presence if isinstance(tau, Calibration) else None,
            host_name=host.name,
            host_sha256=host.sha256,
        )
    except ValidationError as error:
        raise VariantError(explained(error)) from error

    tau_tables = tau.tables if isinstance(tau, Calibration) else []
    report = _report(host, config, the_plan, survey(host, config, tables), tables, tau_tables)
    model = alias(host.model)
    host.generation.swap(model, config)
    model.config = host.generation.patched_config(host.architecture_config, config)
    fields = {**vars(host), "model": model, "report": report, "architecture_config": model.config}
    return Patched(**fields)


def _listed(tables: Sequence[CalibrationTable]) -> list[CalibrationTable]:
    if isinstance(tables, Calibration):
        msg = "tables are what tau is calibrated on; what comes out of it is given as tau"
        raise VariantError(msg)
    if isinstance(tables, Sequence) and all(isinstance(x, CalibrationTable) for x in tables):
        return list(tables)
    msg = f"tables are a sequence of CalibrationTable, not a {type(tables).__name__}"
    raise VariantError(msg)


def _mode(tau: float | Mapping[str, float] | Calibration | None) -> PresenceMode:
    if tau is None:
        return "one"
    return "calibrated" if isinstance(tau, Calibration) else "fixed"


def _tau_by_stream(
    tau: float | Mapping[str, float] | Calibration | None, streams: Sequence[str]
) -> dict[str, float]:
    if tau is None:
        return {}
    if isinstance(tau, Calibration):
        tau = tau.tau
    if isinstance(tau, Real):
        return dict.fromkeys(streams, float(tau))
    if not isinstance(tau, Mapping):
        msg = (
            f"tau is a {type(tau).__name__}; give a number, one for each stream, or a calibration: "
            "retrofit.Calibration.load(path) reads one from its file"
        )
        raise VariantError(msg)
    missing, unknown = set(streams) - set(tau), set(tau) - set(streams)
    if missing or unknown:
        missed, surplus = (", ".join(sorted(names)) or "none" for names in (missing, unknown))
        msg = (
            f"tau by stream must name exactly the host's {len(streams)} streams; "
            f"missing: {missed}; unknown: {surplus}"
        )
        raise VariantError(msg)
    return {stream: float(tau[stream]) for stream in streams}


def _report(
    host: Host,
    config: RetrofitConfig,
    the_plan: PatchPlan,
    seen: Survey,
    tables: Sequence[CalibrationTable],
    tau_tables: list[TableRecord],
) -> PatchReport:
    streams = [
        StreamReport.of(name, config.tau.get(name), active(seen.squared_norms, name))
        for name in the_plan.streams
    ]
    sites = []
    for site in the_plan.sites:
        parameters = host.generation.parameters_of(host.model, site)
        sites.append(
            SiteReport(
                name=site.name,
                kind=site.kind,
                class_before=site.stock_class,
                class_after=site.twin_class,
                parameters=sum(parameter.numel() for parameter in parameters),
                dtype=str(parameters[0].dtype) if parameters else "none",
                device=str(parameters[0].device) if parameters else "none",
                calls=seen.calls[site.name] if site.kind in VARIANT_KINDS["full"] else None,
                eps_share=seen.eps_shares.get(site.name),
            )
        )
    records = [record(table) for table in tables]
    return PatchReport(
        config=config,
        sites=sites,
        streams=streams,
        skipped=the_plan.skipped,
        versions=package_versions(),
        warnings=[
            *([host.note] if host.note else []),
            *_site_warnings(sites),
            *_stream_warnings(streams, config.target_presence),
        ],
        tables=records,
        tau_tables=tau_tables,
    )


def _site_warnings(sites: Sequence[SiteReport]) -> list[str]:
    found = [
        f"{site.name} ran in no forward pass on the calibration tables"
        for site in sites
        if site.calls == 0
    ]
    found += [
        f"eps_den took up to {site.eps_share:.2g} of the attention mass at {site.name}; use a "
        "smaller eps_den, or eps_mode='relative'"
        for site in sites
        if site.eps_share is not None and site.eps_share > EPS_SHARE_WARNING
    ]
    return found


def _stream_warnings(streams: Sequence[StreamReport], target: float | None) -> list[str]:
    if target is None:
        return []
    return [
        f"the smallest carrier of stream {stream.name} has presence {stream.presence_min:.3g}, far "
        f"below the target of {target:g}: it belongs to tokens too rare for the first percentile, "
        "as CLS tokens are beside hundreds of columns; calibrate on narrower tables, or give a "
        "higher target_presence"
        for stream in streams
        if 1 - stream.presence_min > RARE_TOKENS_WARNING * (1 - target)
    ]
