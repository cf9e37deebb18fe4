"""The operators under torch.compile: one graph, the same figures."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from retrofit.ops import (
    OFFN,
    OAttentionConfig,
    OInject,
    ONorm,
    OStandardize,
    OTransformer,
    OTransformerConfig,
    oattention,
    presence,
)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def heads(tokens: int) -> list[torch.Tensor]:
    """Queries, keys, values and presences in which a token is absent and holds NaN."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, tokens, 8, generator=generator) for _ in range(3))
    p = torch.rand(2, tokens, generator=generator)
    p[:, 2] = 0
    k[:, :, 2] = v[:, :, 2] = float("nan")
    return [q, k, v, p, p]


@pytest.mark.parametrize("tokens", [6, 40])
@pytest.mark.parametrize("eps_mode", ["absolute", "relative"])
def test_attention_is_one_graph(tokens, eps_mode):
    def attend(q, k, v, p_BS, p_BJ):
        return oattention(q, k, v, p_BS, p_BJ, eps_mode=eps_mode)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    inputs = heads(tokens)
    assert torch.allclose(compiled(*inputs), attend(*inputs), atol=1e-6)
    assert compiled(*inputs).abs().max() > 0.1


def test_modules_are_one_graph():
    width, tau = 8, 1e-6
    standardize, inject = OStandardize(), OInject(tau)
    norm = ONorm(nn.LayerNorm(width), tau)
    ffn = OFFN(nn.Linear(width, width), tau, nn.LayerNorm(width))
    transformer = OTransformer(OTransformerConfig(OAttentionConfig(width, 2), depth=1))

    def everything(h):
        h = inject(norm(ffn(h)), torch.ones(width))
        return transformer(standardize(h, presence(h, tau)))

    h = torch.randn(2, 6, width)
    h[:, 3] = 0
    compiled = torch.compile(everything, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        want = everything(h)
        got = compiled(h)
    assert torch.allclose(got, want, atol=1e-5)
    assert (got[:, 3] == 0).all()
    assert got.abs().max() > 0.1


@pytest.mark.slow
def test_compiled_code_gives_the_same_figures():
    """Inductor's own kernels, forwards and backwards, through presence and attention."""

    def attend(h, q, k, v):
        p = presence(h, 1e-2)
        return oattention(q, k, v, p, p)

    q, k, v, *_ = heads(6)
    k, v = k.nan_to_num(), v.nan_to_num()
    h = torch.randn(2, 6, 5) * 0.1
    h[:, 2] = 0
    leaves = [x.clone().requires_grad_() for x in (h, q, k, v)]
    compiled = torch.compile(attend, fullgraph=True)
    got, want = compiled(*leaves), attend(*leaves)
    assert torch.allclose(got, want, atol=1e-6)
    assert (got[:, :, 2] == 0).all()
    for ours, eager in zip(
        torch.autograd.grad(got.square().sum(), leaves),
        torch.autograd.grad(want.square().sum(), leaves),
        strict=True,
    ):
        assert torch.allclose(ours, eager, atol=1e-5)
