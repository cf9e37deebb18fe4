"""What a sweep does: one frozen model, filled from options, a YAML file and defaults, in one place.

Options beat the file, the file beats the defaults.
"""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from experiments.data.settings import FileSet, OpenMLSettings
from experiments.data.splits import SplitColumns
from experiments.errors import ConfigError
from experiments.io.text import readable_name, shortened, visible
from experiments.io.yaml_file import read_yaml
from experiments.sweep import variant_name
from experiments.sweep.schema import VARIANT_ORDER
from retrofit.config import EpsDen, PatchSettings, TargetPresence, Tau
from retrofit.words import (
    DEFAULT_EPS_DEN,
    DEFAULT_EPS_MODE,
    DEFAULT_HOST,
    DEFAULT_TARGET_PRESENCE,
    EpsMode,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_CONFIG = "packaged18"
_FAULTS_SAID = 8


def _known_variant(name: str) -> str:
    base = variant_name.parse(name).base
    if base not in VARIANT_ORDER:
        raise ValueError(f"no variant '{base}'; there are {', '.join(map(repr, VARIANT_ORDER))}")
    if base == variant_name.STOCK != name:
        raise ValueError(f"'{name}': stock has no presence")
    return name


Variant = Annotated[str, AfterValidator(_known_variant)]
"""``stock``, ``oa``, ``full`` or ``closed``; ``oa@0.99`` has a target presence of its own."""


class SweepConfig(BaseModel):
    """Everything that decides which numbers a sweep yields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    suite: str = Field(min_length=1)
    """Name of the comparison; the first column of every table."""
    host: str = DEFAULT_HOST
    """``mini``, an official name, or a path to a checkpoint."""
    variants: tuple[Variant, ...] = ("stock", "oa", "full")
    datasets: tuple[str, ...] = ()
    """Names, or ``SOURCE:NAME``, such as ``openml:361235`` for a task of OpenML."""
    files: tuple[FileSet, ...] = ()
    """Tables of the user's own; paths in a YAML file are relative to that file."""
    openml: OpenMLSettings = OpenMLSettings()
    seeds: tuple[int, ...] = Field(min_length=1)
    """Each seed draws a split and seeds tabpfn's ensemble; under official splits it is the number
    of one, ``repeat * folds + fold``."""
    splits: Literal["ours", "official"] = "ours"
    folds: int | None = Field(default=None, ge=2, le=1000)
    """Each seed draws so many folds; a case's number is then ``seed * folds + fold``."""
    group_column: str | None = None
    """Rows with one value of it are never on both sides of a split."""
    time_column: str | None = None
    """Train on the earlier rows, test on the later; numbers or dates."""
    keep_split_column: bool = False
    """Whether that column is a feature as well."""
    limit: int | None = Field(default=None, ge=1)
    """Run the first so many cases only."""
    test_fraction: float = Field(default=0.3, gt=0, lt=1)
    """Share of test rows in a split of ours."""
    max_train_rows: int | None = Field(default=None, ge=2)
    """Train on that many rows at most, drawn with the case's seed, the same for all variants."""
    metric: tuple[str, ...] = ()
    """Names of scikit-learn's scorers, beside the scores that every run has."""
    save_predictions: bool = False
    """Keep what every model predicts for every test row."""
    n_estimators: int = Field(default=8, ge=1, le=10_000)
    device: str = "cpu"
    """``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto``; settled before the first case."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of torch; None leaves torch's own choice."""
    target_presence: TargetPresence = DEFAULT_TARGET_PRESENCE
    """Presence of the smallest legitimate carriers, from which tau is calibrated."""
    tau: Tau | None = None
    """One tau for all sites in place of the calibration."""
    eps_den: EpsDen = DEFAULT_EPS_DEN
    """Mass of the value-less extra source of every attention; 0 switches it off."""
    eps_mode: EpsMode = DEFAULT_EPS_MODE
    """Whether ``eps_den`` is on the raw scale or relative to the largest present term."""
    timing_repeats: int = Field(default=1, ge=1, le=10_000)
    """Timed predictions per case and variant; their median is reported."""
    noise_floor: bool = True
    """Also score stock against itself: repeated, and through other kernels on one thread."""
    baselines: bool = False
    """Also score scikit-learn's Ridge, kNN, random forest and gradient boosting."""
    equivalence_margin_pct: float = Field(default=0.5, gt=0, le=100)
    """Margin of the equivalence test, in percent of stock's RMSE."""

    def patch_settings(self, variant: str) -> PatchSettings:
        """What the patch of a variant is asked for; ``oa@0.99`` has a target of its own."""
        name = variant_name.parse(variant)
        target = None if self.tau is not None else name.target_presence or self.target_presence
        return PatchSettings.of(
            name.base,
            tau=self.tau,
            target_presence=target,
            eps_den=self.eps_den,
            eps_mode=self.eps_mode,
        )

    @property
    def split_columns(self) -> SplitColumns:
        """The columns that rows are split by."""
        return SplitColumns(self.group_column, self.time_column, self.keep_split_column)

    @property
    def case_numbers(self) -> tuple[int, ...]:
        """The seeds of the cases of one data set: those given, or one per fold of each."""
        if self.folds is None:
            return self.seeds
        return tuple(seed * self.folds + fold for seed in self.seeds for fold in range(self.folds))

    @field_validator("metric")
    @classmethod
    def _scorers_exist(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if names:
            from experiments.sweep.scorers import require_scorer

            for name in names:
                require_scorer(name)
        return names

    @field_validator("datasets", "metric", "seeds", "variants")
    @classmethod
    def _no_repeats(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        repeated = sorted({str(value) for value in values if values.count(value) > 1})
        if repeated:
            raise ValueError(f"{', '.join(repeated)} is listed more than once")
        return values

    @model_validator(mode="after")
    def _has_data(self) -> SweepConfig:
        if not self.datasets and not self.files:
            raise ValueError("no data: name 'datasets' or 'files'")
        return self

    @model_validator(mode="after")
    def _tau_or_presence(self) -> SweepConfig:
        named = [name for name in self.variants if variant_name.MARK in name]
        if self.tau is not None and "target_presence" in self.model_fields_set:
            raise ValueError("tau: given, and target_presence, which sets it, as well; drop either")
        if named and self.tau is not None:
            raise ValueError(f"tau: given, and '{named[0]}' asks for a calibrated one; drop either")
        return self

    @model_validator(mode="after")
    def _one_way_to_split(self) -> SweepConfig:
        ways = {"folds": self.folds, "group_column": self.group_column}
        ways |= {"time_column": self.time_column}
        given = [name for name, value in ways.items() if value is not None]
        if self.splits == "official" and given:
            raise ValueError(f"{given[0]}: official splits are as they are; set splits: ours")
        if self.group_column is not None and self.time_column is not None:
            raise ValueError("time_column: given, and group_column as well; drop either")
        if self.keep_split_column and not self.split_columns.names:
            raise ValueError("keep_split_column: only with group_column or time_column")
        if max(self.case_numbers) >= 2**32:
            raise ValueError(f"folds: seed * folds + fold goes beyond {2**32 - 1}; lower the seeds")
        return self

    @field_validator("seeds")
    @classmethod
    def _seeds_fit_numpy(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        for seed in seeds:
            if not 0 <= seed < 2**32:
                raise ValueError(f"seed {seed} is not between 0 and 4294967295")
        return seeds

    @field_validator("variants")
    @classmethod
    def _stock_is_there(cls, variants: tuple[str, ...]) -> tuple[str, ...]:
        if "stock" not in variants:
            raise ValueError("must contain 'stock': every change is measured against it")
        return variants


def load_config(source: str | Path, options: Mapping[str, Any] | None = None) -> SweepConfig:
    """Read a configuration by path or built-in name and lay ``options`` over it.

    Options that are None count as not given.

    Raises:
        ConfigError: no such file, not YAML, an unknown field or a value out of range; the message
            names the file (or the option) and the field.
    """
    path = find_config(source)
    fields = read_yaml(path)
    given = {key: value for key, value in (options or {}).items() if value is not None}
    # Of two ways to set tau, an option's beats the file's.
    if "tau" in given:
        fields.pop("target_presence", None)
    if "target_presence" in given:
        fields.pop("tau", None)
    openml = fields.get("openml")
    merged = {**fields, **given}
    if isinstance(openml, dict) and "openml" in given:
        merged["openml"] = {**openml, **given["openml"]}
    try:
        config = SweepConfig(**merged)
    except ValidationError as error:
        raise ConfigError(_explain(error, path, given)) from None
    return config if "files" in given else _beside(config, path.absolute().parent)


def _beside(config: SweepConfig, folder: Path) -> SweepConfig:
    """The configuration with the paths of its files made relative to ``folder``."""
    files = tuple(entry.model_copy(update={"path": folder / entry.path}) for entry in config.files)
    return config.model_copy(update={"files": files})


def suite_of_file(path: Path) -> str:
    """The name of a comparison on one file that gives none."""
    return readable_name(path.stem or str(path))


def find_config(source: str | Path) -> Path:
    """Return the path of a configuration file, given as a path or as a built-in name.

    A built-in name means the same in every working directory; ``./NAME`` is a file of that name.

    Raises:
        ConfigError: neither; the message lists the built-in names.
    """
    path = Path(source)
    if isinstance(source, Path) and path.is_file():
        return path
    built_in = builtin_configs()
    if isinstance(source, str) and source in built_in:
        return built_in[source]
    if path.is_file():
        return path
    near = difflib.get_close_matches(str(source), built_in, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"built in: {', '.join(built_in)}"
    raise ConfigError(f"no configuration file at '{path}' ({path.absolute()}); {hint}")


def builtin_configs() -> dict[str, Path]:
    """Sweep configurations that come with oretro, by name."""
    folder = _config_folder()
    paths = sorted(folder.glob("*.yaml"), key=lambda path: path.name)
    return {path.stem: path for path in paths if "suite" in read_yaml(path)}


def first_remark(path: Path) -> str:
    """What a configuration says of itself: the comment in its first line, or nothing."""
    with path.open(encoding="utf-8") as file:
        line = file.readline()
    return line.lstrip("# ").strip() if line.startswith("#") else ""


def _config_folder() -> Path:
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "configs"
    return Path(str(resources.files("experiments"))) / "configs"


def _explain(error: ValidationError, path: Path, options: Mapping[str, Any]) -> str:
    lines = []
    # Of several faults of one field the first says it: the others follow from it.
    for fault in {fault["loc"][:1]: fault for fault in reversed(error.errors())}.values():
        field = shortened(visible(".".join(str(part) for part in fault["loc"])), 120)
        origin = "option" if fault["loc"] and fault["loc"][0] in options else str(path)
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            near = difflib.get_close_matches(field, SweepConfig.model_fields, n=1)
            message = f"unknown field; did you mean '{near[0]}'?" if near else "unknown field"
        elif fault["type"] not in ("missing", "value_error"):
            message += f" (got {shortened(repr(fault['input']), 80)})"
        lines.append(f"{origin}: {field}: {message}" if field else f"{origin}: {message}")
    more = [f"and {len(lines) - _FAULTS_SAID} more faults"] if len(lines) > _FAULTS_SAID else []
    return "\n".join((*lines[:_FAULTS_SAID], *more))
