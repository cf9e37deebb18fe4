"""O-closed retrofits of frozen, pretrained TabPFN regressors.

Importing this package registers the patched architecture with tabpfn, so that tabpfn itself can
load patched checkpoints.
"""

from __future__ import annotations

from retrofit import errors, ops
from retrofit.architecture import register
from retrofit.calibrate import CalibrationTable, Carriers, calibrate, measure_carriers
from retrofit.calibration import Calibration
from retrofit.closure import Presence, declaring
from retrofit.config import RetrofitConfig
from retrofit.host import Host, HostDescription
from retrofit.load import describe_host, load_host, official_names
from retrofit.patch import Patched, patch
from retrofit.plan import PatchPlan, plan
from retrofit.predict_tables import predict_tables
from retrofit.report import PatchReport

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
