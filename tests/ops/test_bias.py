"""Biases of projections wake nobody: no receiver that is NULL, and none without support."""

from __future__ import annotations

import pytest
import torch

from retrofit.ops import OAttention, OAttentionConfig

WIDTH = 8


def attention(**settings) -> OAttention:
    generator = torch.Generator().manual_seed(0)
    layer = OAttention(OAttentionConfig(WIDTH, heads=2, tau=1.0, **settings)).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return layer


def tokens(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, WIDTH, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("eps_den", [0.0, 1e-8])
@pytest.mark.parametrize(
    ("sources", "mask"),
    [
        (torch.zeros(2, 4, WIDTH), None),
        (torch.zeros(2, 0, WIDTH), None),
        (tokens(2, 4), torch.zeros(4, dtype=torch.bool)),
        (tokens(2, 4), torch.zeros(2, 1, 3, 4)),
    ],
    ids=["all NULL", "none", "all hidden", "all hidden by a float"],
)
def test_an_empty_support_gives_zero(sources, mask, eps_den):
    layer = attention(eps_den=eps_den)
    assert layer.out_projection.bias.abs().min() > 0
    assert (layer(tokens(2, 3), sources.double(), mask=mask) == 0).all()


def test_support_is_asked_of_every_receiver_and_of_all_heads():
    layer, x, y = attention(), tokens(2, 3), tokens(2, 4)
    y[1] = 0
    mask = torch.ones(2, 2, 3, 4, dtype=torch.bool)
    mask[0, :, 0] = False
    mask[0, 0, 1] = False
    out = layer(x, y, mask=mask)
    assert (out[0, 0] == 0).all()
    assert (out[1] == 0).all()
    # One head sees something.
    assert out[0, 1].abs().min() > 0
    assert torch.equal(out[0, 2], layer(x, y)[0, 2])


def test_a_source_that_is_barely_there_supports():
    layer, y = attention(), torch.zeros(1, 4, WIDTH, dtype=torch.float64)
    y[0, 2, 0] = 1e-9
    assert layer(tokens(1, 3), y).abs().min() > 0


def test_the_way_to_an_empty_support_has_gradients():
    layer, x = attention(), tokens(1, 3).requires_grad_()
    layer(x, torch.zeros(1, 4, WIDTH, dtype=torch.float64)).sum().backward()
    assert (x.grad == 0).all()
