"""The configuration of one pretraining run, as read from its YAML file."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  (pydantic reads annotations when the class is made)
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from experiments.errors import ConfigError
from experiments.io.yaml_file import read_yaml
from experiments.prior import PriorConfig

Range = tuple[int, int]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Phase(_Strict):
    """Task sizes until a share ``until`` of the run is over; sizes are log-uniform."""

    until: float = Field(gt=0, le=1)
    rows: Range
    columns: Range

    @model_validator(mode="after")
    def _ordered(self) -> Phase:
        if not 8 <= self.rows[0] <= self.rows[1]:
            raise ValueError(f"rows {self.rows} must be an ordered pair of at least 8")
        if not 1 <= self.columns[0] <= self.columns[1]:
            raise ValueError(f"columns {self.columns} must be an ordered pair of at least 1")
        return self


class DataConfig(_Strict):
    """The stream of tasks. A step holds about ``cells`` cells of equal-sized tasks per process."""

    cells: int = Field(default=24_000, ge=100)
    max_tasks: int = Field(default=16, ge=1)
    train_share: tuple[float, float] = (0.5, 0.9)
    curriculum: tuple[Phase, ...]

    @model_validator(mode="after")
    def _complete(self) -> DataConfig:
        ends = [phase.until for phase in self.curriculum]
        if not ends or ends != sorted(set(ends)) or ends[-1] != 1.0:
            raise ValueError("the curriculum's `until` must rise and end at 1.0")
        if not 0.1 <= self.train_share[0] <= self.train_share[1] <= 0.95:
            raise ValueError("train_share must be an ordered pair within [0.1, 0.95]")
        return self


class OptimiserConfig(_Strict):
    """Muon for the hidden matrices, AdamW for the rest; linear decay after the warm-up."""

    muon_lr: float = Field(default=2.5e-3, gt=0)
    adamw_lr: float = Field(default=1.5e-3, gt=0)
    weight_decay: float = Field(default=0.01, ge=0)
    warmup_steps: int = Field(default=100, ge=1)
    clip_norm: float = Field(default=1.0, gt=0)
    ema_decay: float = Field(default=0.999, gt=0, lt=1)


class StepBudget(_Strict):
    """A fixed number of steps: the same weights whatever the machine's load."""

    kind: Literal["steps"]
    steps: int = Field(ge=1)


class WallClockBudget(_Strict):
    """A number of training seconds; the pace is recorded, and a replay of it is exact."""

    kind: Literal["wall_clock"]
    seconds: float = Field(gt=0)


class ReplayBudget(_Strict):
    """The recorded pace (``pace.csv``) of an earlier wall-clock run."""

    kind: Literal["replay"]
    pace: Path


Budget = Annotated[StepBudget | WallClockBudget | ReplayBudget, Field(discriminator="kind")]


class ValidationConfig(_Strict):
    """Synthetic validation tasks: ``tasks`` of every ``[rows, columns]``, from their own seed."""

    seed: int = Field(default=9_001, ge=0)
    shapes: tuple[Range, ...] = ((128, 4), (256, 8), (512, 12))
    tasks: int = Field(default=12, ge=1)


class PretrainConfig(_Strict):
    """Everything that decides a run. ``processes`` belongs to it: each one adds tasks to a step.

    ``architecture`` is a name of tabpfn's registry; ``model`` holds fields of that architecture's
    own configuration.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    seed: int = Field(default=0, ge=0)
    processes: int = Field(default=2, ge=1)
    threads: int = Field(default=1, ge=1)
    budget: Budget
    architecture: str
    model: dict[str, JsonValue]
    data: DataConfig
    prior: PriorConfig = PriorConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    validation: ValidationConfig = ValidationConfig()
    tick_steps: int = Field(default=25, ge=1)
    checkpoint_seconds: float = Field(default=180.0, gt=0)
    validation_seconds: float = Field(default=180.0, gt=0)

    @field_validator("architecture")
    @classmethod
    def _known_architecture(cls, name: str) -> str:
        from experiments.pretrain.model import architecture_module

        architecture_module(name)
        return name

    @field_validator("model")
    @classmethod
    def _fits_architecture(
        cls, fields: dict[str, JsonValue], info: ValidationInfo
    ) -> dict[str, JsonValue]:
        from experiments.pretrain.model import parse_architecture

        if "architecture" in info.data:
            parse_architecture(info.data["architecture"], fields)
        return fields


def load_config(path: Path) -> PretrainConfig:
    """The configuration in a YAML file. Raises ``ConfigError`` that names every field at fault."""
    try:
        return PretrainConfig.model_validate(read_yaml(path))
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']) or 'file'}: "
            f"{fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        )
        raise ConfigError(f"{path}: {faults}") from error
