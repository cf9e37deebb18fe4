"""What a run record must hold for its readers: types, and no more; any other field may stand there.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from experiments.io.text import shortened, visible
from experiments.sweep.variant_name import parse

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


def _means_something(name: str) -> str:
    parse(name)
    return name


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Config(_Part):
    suite: str
    host: str
    target_presence: _Finite | None = None
    tau: _Finite | None = None
    eps_den: _Finite = 0.0
    eps_mode: str = ""
    equivalence_margin_pct: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _says_what_tau_is_from(self) -> _Config:
        if self.tau is None and self.target_presence is None:
            raise ValueError("neither tau nor target_presence")
        return self


class _Code(_Part):
    commit: str | None = None
    dirty: bool | None = None


class _Host(_Part):
    name: str
    sha256: str
    built_in: bool = False


class _Table(_Part):
    rows: _Count
    columns: _Count
    source: str
    licence: str
    dropped_rows: _Count = 0
    notes: list[str] = []


class _Stream(_Part):
    name: str
    tau: _Finite | None = None
    null_radius: _Finite | None = None

    @model_validator(mode="after")
    def _has_radius(self) -> _Stream:
        if self.tau is not None and self.null_radius is None:
            raise ValueError("a stream with tau has a null radius")
        return self


class _Patch(_Part):
    streams: list[_Stream] = []


class _Run(_Part):
    status: str = ""
    config: _Config
    command: list[str] = []
    code: _Code = _Code()
    versions: dict[str, str]
    machine: dict[str, Any] = {}
    device: str = ""
    dtype: str = ""
    host: _Host
    times: dict[str, str] = {}
    tables: dict[str, _Table] = {}
    patches: dict[Annotated[str, AfterValidator(_means_something)], _Patch] = {}
    missing: dict[str, str] = {}
    tables_sha256: dict[str, str] = {}


def shape_fault(content: dict[str, Any]) -> str:
    """The first field that readers would stumble over, and why; empty if there is none."""
    try:
        _Run.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        return shortened(visible(f"{place}: {fault['msg']}"), 200)
    return ""
