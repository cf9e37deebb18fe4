"""A float mask holds gates; one that is to be added to scores is refused."""

from __future__ import annotations

import pytest
import torch

from retrofit.ops import oattention
from retrofit.ops.errors import OperatorError

QKV = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(0)).unbind()


def attend(mask: torch.Tensor | None) -> torch.Tensor:
    return oattention(*QKV, None, torch.ones(1, 5), mask=mask)


@pytest.mark.parametrize(
    "mask",
    [
        torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf),
        torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -1e4).bfloat16(),
        torch.tensor([0.0, 0.0, 0.0, 0.0, torch.nan]),
        torch.tensor([0.0, 0.5, 1.0, 1.5, 1.0]),
    ],
    ids=["-inf", "-1e4", "nan", "above 1"],
)
def test_additive_mask_is_refused(mask: torch.Tensor) -> None:
    with pytest.raises(OperatorError, match="mask == 0"):
        attend(mask)


def test_gates_are_taken_and_the_way_out_is_right() -> None:
    additive = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf)
    causal = attend(additive == 0)
    assert torch.equal(attend((additive == 0).float()), causal)
    assert not torch.equal(attend(None), causal)


def test_values_are_not_read_where_there_are_none() -> None:
    masks = torch.stack((torch.eye(5), torch.ones(5, 5)))
    both = torch.func.vmap(attend)(masks)
    assert torch.allclose(both[1], attend(None), atol=1e-6)
