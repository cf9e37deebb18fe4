"""O-closed retrofits of frozen, pretrained TabPFN regressors.

Importing this package makes tabpfn able to load patched checkpoints, now or once it is imported.
What the package offers is imported when it is first used, so that its settings and errors can be
read without torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from retrofit.hosts.registry import register

if TYPE_CHECKING:
    from retrofit import errors, ops
    from retrofit.closed.predict_tables import predict_tables
    from retrofit.closed.removable import Removable
    from retrofit.config import PatchSettings, RetrofitConfig
    from retrofit.hosts.declare import Presence, declaring
    from retrofit.hosts.host import Host, HostDescription
    from retrofit.hosts.report import PatchReport
    from retrofit.patching.calibrate import CalibrationTable, Carriers, calibrate, measure_carriers
    from retrofit.patching.calibration import Calibration
    from retrofit.patching.load import describe_host, load_host
    from retrofit.patching.patch import Patched, patch
    from retrofit.patching.plan import PatchPlan, plan
    from retrofit.patching.sources import official_names

try:
    __version__ = version("oretro")
except PackageNotFoundError:  # a checkout that is run without being installed
    __version__ = "unknown"

_HOMES = {
    "Calibration": "retrofit.patching.calibration",
    "CalibrationTable": "retrofit.patching.calibrate",
    "Carriers": "retrofit.patching.calibrate",
    "Host": "retrofit.hosts.host",
    "HostDescription": "retrofit.hosts.host",
    "PatchPlan": "retrofit.patching.plan",
    "PatchReport": "retrofit.hosts.report",
    "Patched": "retrofit.patching.patch",
    "Presence": "retrofit.hosts.declare",
    "PatchSettings": "retrofit.config",
    "Removable": "retrofit.closed.removable",
    "RetrofitConfig": "retrofit.config",
    "calibrate": "retrofit.patching.calibrate",
    "declaring": "retrofit.hosts.declare",
    "describe_host": "retrofit.patching.load",
    "load_host": "retrofit.patching.load",
    "measure_carriers": "retrofit.patching.calibrate",
    "official_names": "retrofit.patching.sources",
    "patch": "retrofit.patching.patch",
    "plan": "retrofit.patching.plan",
    "predict_tables": "retrofit.closed.predict_tables",
}

__all__ = [
    "Calibration",
    "CalibrationTable",
    "Carriers",
    "Host",
    "HostDescription",
    "PatchPlan",
    "PatchReport",
    "PatchSettings",
    "Patched",
    "Presence",
    "Removable",
    "RetrofitConfig",
    "__version__",
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


def __getattr__(name: str) -> Any:
    if name in ("errors", "ops"):
        return import_module(f"retrofit.{name}")
    if name not in _HOMES:
        msg = f"module 'retrofit' has no attribute {name!r}"
        raise AttributeError(msg)
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


register()
