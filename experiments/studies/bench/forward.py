"""What a patched host costs beside stock: paired forward passes, as ratios with their spread.

Before any clock runs, the host with presence forced to 1 must
equal stock: a fast wrong answer is no answer.

Shapes: R rows, B batch (ensemble members), C columns, N train rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from experiments.errors import BenchmarkError, ConfigError
from experiments.report.columns import Column
from experiments.studies.bench.timer import interleaved, quartiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from retrofit import Host
    from retrofit.words import Variant

WIRING_TOLERANCE = 1e-4
"""Largest relative deviation of the logits that float32 rounding explains."""


@dataclass(frozen=True)
class BenchShape:
    """The size of one forward pass."""

    train: int
    test: int
    columns: int
    members: int

    @property
    def name(self) -> str:
        """For example ``300+100 x 10, 4 members``."""
        members = f"{self.members} member" + "s" * (self.members > 1)
        return f"{self.train}+{self.test} x {self.columns}, {members}"

    @classmethod
    def parse(cls, text: str) -> BenchShape:
        """The shape that ``TRAIN+TESTxCOLUMNS`` or ``TRAIN+TESTxCOLUMNSxMEMBERS`` names.

        Raises:
            ConfigError: the text names none.
        """
        found = re.fullmatch(r"([1-9]\d*)\+([1-9]\d*)x([1-9]\d*)(?:x([1-9]\d*))?", text)
        if found is None:
            raise ConfigError(
                f"no shape is called '{text}'; write TRAIN+TESTxCOLUMNS, with xMEMBERS for an "
                "ensemble, such as 400+100x10x8"
            )
        train, test, columns, members = found.groups()
        return cls(int(train), int(test), int(columns), int(members or 1))


SHAPES = tuple(map(BenchShape.parse, ("70+30x5x4", "300+100x10x4", "300+100x40x4", "1500+500x8")))


@dataclass(frozen=True)
class BenchRow:
    """Time of one variant at one shape beside stock's in the same rounds."""

    shape: str
    variant: str
    stock_s: float
    """Median seconds of stock's forward pass."""
    variant_s: float
    """Median seconds of the variant's."""
    ratio: float
    """Median over the rounds of variant / stock."""
    ratio_low: float
    """First quartile of that ratio."""
    ratio_high: float
    """Third quartile of that ratio."""
    rounds: int
    threads: int
    kernels: str
    """Attention kernels that one forward pass used, with their counts."""


def bench(
    host: Host,
    variants: Sequence[str],
    *,
    shapes: Sequence[BenchShape] = SHAPES,
    rounds: int = 15,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda _: None,
) -> list[BenchRow]:
    """Time forward passes of stock and of each variant, interleaved.

    Raises:
        BenchmarkError: a variant with presence 1 does not equal stock at some shape.
        retrofit.errors.RetrofitError: the host cannot be patched.
    """
    import torch

    import retrofit

    models = {"stock": model_of(host, device)}
    wired = {}
    for variant in variants:
        # The library refuses an unknown name with the list of those it has.
        chosen = cast("Variant", variant)
        models[variant] = model_of(retrofit.patch(host, chosen), device)
        wired[variant] = model_of(retrofit.patch(host, chosen, presence="one", eps_den=0.0), device)
    rows = []
    for shape in shapes:
        progress(shape.name)
        work = {name: forward(model, shape, device) for name, model in models.items()}
        for variant, model in wired.items():
            _require_equal(work["stock"], forward(model, shape, device), variant, shape)
        kernels = {}
        for name, run in work.items():
            with retrofit.ops.record_kernels() as counted:
                run()
            kernels[name] = ", ".join(f"{count} {kernel}" for kernel, count in counted.items())
        seconds = interleaved(work, rounds)
        for variant in variants:
            low, middle, high = quartiles(seconds[variant], seconds["stock"])
            rows.append(
                BenchRow(
                    shape=shape.name,
                    variant=variant,
                    stock_s=float(np.median(seconds["stock"])),
                    variant_s=float(np.median(seconds[variant])),
                    ratio=middle,
                    ratio_low=low,
                    ratio_high=high,
                    rounds=rounds,
                    threads=torch.get_num_threads(),
                    kernels=kernels[variant],
                )
            )
    return rows


COLUMNS: tuple[Column[BenchRow], ...] = (
    Column("shape", "shape"),
    Column("threads", "threads"),
    Column("variant", "variant"),
    Column("stock_s", "stock", lambda seconds: f"{seconds * 1e3:.1f} ms"),
    Column("ratio", "variant / stock", "{:.2f}".format),
    Column("quartiles", "quartiles", value=lambda x: f"{x.ratio_low:.2f} to {x.ratio_high:.2f}"),
    Column("kernels", "kernels"),
)


def model_of(host: Host, device: str) -> nn.Module:
    """The copy that a regressor would run, so that nothing here can reach the host."""
    model: nn.Module = host.regressor().model_path.model
    return model.eval().to(device)


def forward(model: nn.Module, shape: BenchShape, device: str) -> Callable[[], np.ndarray]:
    """One forward pass and the way of its result to the CPU, which waits for the device."""
    import torch

    from retrofit.hosts.registry import generation_of_model

    call = generation_of_model(model).run
    generator = torch.Generator().manual_seed(shape.train + shape.columns)
    x_RBC = torch.randn(shape.train + shape.test, shape.members, shape.columns, generator=generator)
    y_NB = torch.randn(shape.train, shape.members, generator=generator)
    x_RBC, y_NB = x_RBC.to(device), y_NB.to(device)

    def run() -> np.ndarray:
        with torch.inference_mode():
            return np.asarray(call(model, x_RBC, y_NB).cpu())

    return run


def _require_equal(
    stock: Callable[[], np.ndarray],
    wired: Callable[[], np.ndarray],
    variant: str,
    shape: BenchShape,
) -> None:
    expected, got = stock(), wired()
    deviation = float(np.abs(got - expected).max() / np.abs(expected).max())
    if not deviation <= WIRING_TOLERANCE:
        raise BenchmarkError(
            f"{variant} with presence 1 deviates from stock by {deviation:.1e} of the largest "
            f"logit at {shape.name}, more than float32 rounding explains; its time means nothing"
        )
