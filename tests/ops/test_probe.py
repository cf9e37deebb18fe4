"""Whether a kernel exists is asked once and holds for all: who asks first must not decide."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import torch

from retrofit.ops.attention import fused
from retrofit.ops.attention.fused import has_flash_lse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
    "grad": torch.enable_grad,
    "float64 by default": lambda: default_dtype(torch.float64),
    "bfloat16 by default": lambda: default_dtype(torch.bfloat16),
    "no real device by default": lambda: torch.device("meta"),
}


@pytest.fixture
def unasked() -> Iterator[None]:
    has_flash_lse.cache_clear()
    yield
    has_flash_lse.cache_clear()


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_answer_does_not_depend_on_who_asks_first(name: str) -> None:
    plain = has_flash_lse()
    assert plain, "the torch that these tests run with has the kernel"
    has_flash_lse.cache_clear()
    with SURROUNDINGS[name]():
        assert has_flash_lse() == plain


@pytest.mark.usefixtures("unasked")
def test_the_answer_does_not_depend_on_a_transform() -> None:
    def asking(x: torch.Tensor) -> torch.Tensor:
        assert has_flash_lse()
        return x + 1

    torch.func.vmap(asking)(torch.zeros(2))
    has_flash_lse.cache_clear()
    traced = torch.jit.trace(asking, torch.zeros(2))
    assert "flash" not in str(traced.graph)


@pytest.mark.usefixtures("unasked")
def test_a_kernel_with_another_result_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "_scaled_dot_product_flash_attention_for_cpu"
    real = getattr(torch.ops.aten, name)

    class Changed:
        def __getattr__(self, asked: str) -> object:
            assert asked == name

            def shifted(*args: object, **options: object) -> tuple[torch.Tensor, torch.Tensor]:
                out, lse = real(*args, **options)
                return out, lse + 1.0

            return shifted

    monkeypatch.setattr(fused.torch.ops, "aten", Changed())
    assert not has_flash_lse()
