"""What the prior draws and how often: every share and range of the synthetic tasks."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field, field_validator

FAMILIES = (
    "linear",
    "additive",
    "interactions",
    "forest",
    "mlp",
    "fourier",
    "product",
    "causal",
)
MARGINALS = (
    "normal",
    "uniform",
    "lognormal",
    "heavy_tailed",
    "zero_inflated",
    "integer",
    "binary",
    "categorical",
)
WARPS = ("none", "exp", "power", "censored", "rounded", "uniform", "log")


def _check_weights(weights: dict[str, float], known: tuple[str, ...]) -> dict[str, float]:
    unknown = sorted(set(weights) - set(known))
    if unknown:
        raise ValueError(f"unknown names {unknown}; known are {list(known)}")
    values = list(weights.values())
    if not all(math.isfinite(v) and v >= 0 for v in values) or sum(values) <= 0:
        raise ValueError("weights must be finite, not negative, and not all zero")
    return weights


class PriorConfig(BaseModel):
    """Shares and ranges of the synthetic regression tasks.

    Weights are relative: they need not sum to one. Shares are probabilities in [0, 1].
    ``noise_sd`` is relative to a signal of unit variance.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    families: dict[str, float] = Field(
        default={
            "linear": 0.12,
            "additive": 0.19,
            "interactions": 0.18,
            "forest": 0.15,
            "mlp": 0.10,
            "fourier": 0.09,
            "product": 0.05,
            "causal": 0.12,
        }
    )
    marginals: dict[str, float] = Field(
        default={
            "normal": 0.30,
            "uniform": 0.17,
            "lognormal": 0.13,
            "heavy_tailed": 0.07,
            "zero_inflated": 0.05,
            "integer": 0.10,
            "binary": 0.07,
            "categorical": 0.11,
        }
    )
    warps: dict[str, float] = Field(
        default={
            "none": 0.58,
            "exp": 0.13,
            "power": 0.07,
            "censored": 0.05,
            "rounded": 0.09,
            "uniform": 0.04,
            "log": 0.04,
        }
    )
    noise_sd: tuple[float, float] = (0.03, 1.5)
    low_noise_share: float = Field(default=0.25, ge=0, le=1)
    low_noise_sd: tuple[float, float] = (0.005, 0.1)
    odd_noise_share: float = Field(default=0.35, ge=0, le=1)
    mixed_family_share: float = Field(default=0.15, ge=0, le=1)
    irrelevant_share: float = Field(default=0.5, ge=0, le=1)
    redundant_share: float = Field(default=0.15, ge=0, le=1)
    missing_share: float = Field(default=0.2, ge=0, le=1)
    transformed_share: float = Field(default=0.45, ge=0, le=1)

    @field_validator("families")
    @classmethod
    def _known_families(cls, value: dict[str, float]) -> dict[str, float]:
        return _check_weights(value, FAMILIES)

    @field_validator("marginals")
    @classmethod
    def _known_marginals(cls, value: dict[str, float]) -> dict[str, float]:
        return _check_weights(value, MARGINALS)

    @field_validator("warps")
    @classmethod
    def _known_warps(cls, value: dict[str, float]) -> dict[str, float]:
        return _check_weights(value, WARPS)

    @field_validator("noise_sd", "low_noise_sd")
    @classmethod
    def _ordered_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not 0 < low <= high < math.inf:
            raise ValueError(f"needs 0 < low <= high, got {value}")
        return value
