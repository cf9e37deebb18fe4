"""O-closed retrofits of frozen, pretrained TabPFN regressors.

Importing this package registers the patched architecture with tabpfn, so that tabpfn itself can
load patched checkpoints.
"""

from __future__ import annotations

from retrofit import errors, ops
from retrofit.closed.predict_tables import predict_tables
from retrofit.config import RetrofitConfig
from retrofit.hosts.architecture import register
from retrofit.hosts.declare import Presence, declaring
from retrofit.hosts.host import Host, HostDescription
from retrofit.hosts.report import PatchReport
from retrofit.patching.calibrate import CalibrationTable, Carriers, calibrate, measure_carriers
from retrofit.patching.calibration import Calibration
from retrofit.patching.load import describe_host, load_host, official_names
from retrofit.patching.patch import Patched, patch
from retrofit.patching.plan import PatchPlan, plan

register()

__all__ = [
    "Calibration",
    "CalibrationTable",
    "Carriers",
    "Host",
    "HostDescription",
    "PatchPlan",
    "PatchReport",
    "Patched",
    "Presence",
    "RetrofitConfig",
    "calibrate",
    "declaring",
    "describe_host",
    "errors",
    "load_host",
    "measure_carriers",
    "official_names",
    "ops",
    "patch",
    "plan",
    "predict_tables",
]
