"""OFFN, ONorm, OInject, OStandardize, OAttention and OTransformer: formulas and O-Closure."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from op_samples import LAW
from torch import nn

from retrofit.ops import (
    OFFN,
    OAttention,
    OAttentionConfig,
    OInject,
    ONorm,
    OperatorError,
    OStandardize,
    OTransformer,
    OTransformerBlock,
    OTransformerConfig,
    ShapeError,
    presence,
)

WIDTH, TAU = 8, 1e-6
# Double rounding through eight layers with states of order ten.
CLOSE = 1e-11


def drawn(module: nn.Module, seed: int = 0) -> nn.Module:
    """The module in float64 with every parameter drawn, biases included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return module.eval()


def transformer_config(**settings) -> OTransformerConfig:
    attention = OAttentionConfig(WIDTH, heads=4, kv_heads=2, tau=TAU)
    return OTransformerConfig(attention, ffn_width=16, **settings)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))


EMBEDDING = torch.linspace(-1, 1, WIDTH, dtype=torch.float64)
COMPONENTS = {
    "ONorm, LayerNorm": drawn(ONorm(nn.LayerNorm(WIDTH), TAU)),
    "ONorm, RMSNorm": drawn(ONorm(nn.RMSNorm(WIDTH), TAU)),
    "OFFN": drawn(OFFN(mlp(), TAU, nn.LayerNorm(WIDTH))),
    "OFFN without norm": drawn(OFFN(mlp(), TAU)),
    "OInject": lambda h: OInject(TAU)(h, EMBEDDING),
    "OStandardize": lambda h: OStandardize()(h, presence(h, TAU)),
    "OStandardize, sample variance": lambda h: OStandardize(0.0, 1.0)(h, presence(h, TAU)),
    "OAttention": drawn(OAttention(transformer_config().attention)),
    "pre-norm": drawn(OTransformerBlock(transformer_config())),
    "post-norm": drawn(OTransformerBlock(transformer_config(norm_first=False))),
    "pre-norm, RMSNorm": drawn(OTransformerBlock(transformer_config(norm="rms"))),
}


def with_null_tokens(h, positions):
    """Zero tokens before each of ``positions``, and which tokens are old."""
    rows, old = [], []
    for j in range(h.shape[1] + 1):
        count = positions.count(j)
        rows += [torch.zeros_like(h[:, :1])] * count
        old += [False] * count
        if j < h.shape[1]:
            rows.append(h[:, j : j + 1])
            old.append(True)
    return torch.cat(rows, 1), torch.tensor(old)


@torch.no_grad()
def shift_and_null(map_, h, positions):
    """Also beside a batch element whose tokens there are ordinary, so that their places stay."""
    wide, old = with_null_tokens(h, positions)
    ragged = torch.cat((wide, wide[-1:].masked_fill(wide[-1:] == 0, 1.0)))
    before, outs = map_(h), (map_(wide), map_(ragged)[:-1])
    assert all(out.isfinite().all() for out in outs)
    shift = max(float((out[:, old] - before).abs().max()) for out in outs)
    return shift, max(float(out[:, ~old].abs().max()) for out in outs)


tokens = st.builds(
    lambda seed, batch, count: torch.randn(
        batch, count, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ),
    st.integers(0, 2**31),
    st.sampled_from((1, 2)),
    st.sampled_from((1, 2, 3, 7, 12)),
)


@given(h=tokens, data=st.data())
@LAW
def test_every_component_is_closed(h, data):
    positions = data.draw(st.lists(st.integers(0, h.shape[1]), min_size=1, max_size=3))
    for name, map_ in COMPONENTS.items():
        shift, null = shift_and_null(map_, h, positions)
        assert shift <= CLOSE, name
        assert null == 0.0, name


@given(h=tokens, depth=st.integers(1, 8), norm_first=st.booleans(), data=st.data())
@LAW
def test_transformers_are_closed_at_every_depth(h, depth, norm_first, data):
    positions = data.draw(st.lists(st.integers(0, h.shape[1]), min_size=1, max_size=3))
    model = transformer(depth, norm_first)
    shift, null = shift_and_null(model, h, positions)
    assert shift <= CLOSE
    assert null == 0.0


def transformer(depth, norm_first, made={}):  # noqa: B006  (built once for all examples)
    key = depth, norm_first
    if key not in made:
        made[key] = drawn(OTransformer(transformer_config(depth=depth, norm_first=norm_first)))
    return made[key]


@pytest.mark.parametrize(
    "map_",
    [
        drawn(nn.LayerNorm(WIDTH)),
        lambda h: h + COMPONENTS["OFFN"].ffn(h),
        lambda h: h + EMBEDDING,
        lambda h: (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True),
        drawn(nn.TransformerEncoderLayer(WIDTH, 4, 16, batch_first=True)),
    ],
    ids=["LayerNorm", "FFN", "injection", "standardise", "block"],
)
def test_ordinary_components_are_not_closed(map_):
    h = torch.randn(2, 5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    shift, null = shift_and_null(map_, h, [2])
    assert max(shift, null) > 1e-2


@pytest.mark.parametrize("norm_first", [True, False])
def test_block_with_everything_present_is_torchs_own_block(norm_first):
    """An independent implementation, with the same weights, tells the wiring apart."""
    config = OTransformerConfig(
        OAttentionConfig(WIDTH, 4, tau=1e-30, eps_den=0.0), ffn_width=16, norm_first=norm_first
    )
    ours = drawn(OTransformerBlock(config), seed=3)
    theirs = (
        nn.TransformerEncoderLayer(
            WIDTH, 4, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
        )
        .double()
        .eval()
    )
    attention = ours.attention
    projections = attention.q_projection, attention.k_projection, attention.v_projection
    first, last = ours.ffn.ffn[0], ours.ffn.ffn[2]
    ffn_norm = ours.ffn.norm if norm_first else ours.ffn_norm.norm
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": torch.cat([p.weight for p in projections]),
            "self_attn.in_proj_bias": torch.cat([p.bias for p in projections]),
            "self_attn.out_proj.weight": attention.out_projection.weight,
            "self_attn.out_proj.bias": attention.out_projection.bias,
            "linear1.weight": first.weight,
            "linear1.bias": first.bias,
            "linear2.weight": last.weight,
            "linear2.bias": last.bias,
            "norm1.weight": ours.attention_norm.norm.weight,
            "norm1.bias": ours.attention_norm.norm.bias,
            "norm2.weight": ffn_norm.weight,
            "norm2.bias": ffn_norm.bias,
        }
    )
    h = torch.randn(2, 30, WIDTH, dtype=torch.float64)
    hidden = torch.ones(30, 30, dtype=torch.bool).triu(1)
    with torch.no_grad():
        assert torch.allclose(ours(h), theirs(h), atol=1e-11)
        causal = ours(h, mask=~hidden)
        assert torch.allclose(causal, theirs(h, src_mask=hidden), atol=1e-11)
        assert not torch.allclose(causal, ours(h), atol=1e-3)


def test_receiver_gate_stands_after_the_output_bias():
    attention = COMPONENTS["OAttention"]
    h = torch.randn(1, 5, WIDTH, dtype=torch.float64)
    h[:, 2] = 0
    with torch.no_grad():
        assert (attention(h)[:, 2] == 0).all()
        assert attention.out_projection.bias.abs().min() > 0
        half = attention(h, p_BS=torch.full((1, 5), 0.5), p_BJ=presence(h, TAU))
        whole = attention(h, p_BS=torch.ones(1, 5), p_BJ=presence(h, TAU))
    assert torch.allclose(2 * half, whole)


def test_cross_attention_takes_presence_from_its_own_sources():
    attention = drawn(OAttention(OAttentionConfig(WIDTH, 2, source_width=5, tau=TAU)))
    x = torch.randn(2, 4, WIDTH, dtype=torch.float64)
    y = torch.randn(2, 6, 5, dtype=torch.float64)
    y[:, 3] = 0
    kept = torch.arange(6) != 3
    with torch.no_grad():
        assert torch.allclose(attention(x, y), attention(x, y[:, kept]), atol=1e-13)
        everyone = torch.ones(2, 6, dtype=torch.float64)
        woken = attention(x, y, p_BJ=everyone)
    assert not torch.allclose(woken, attention(x, y), atol=1e-3)


def test_offn_onorm_and_oinject_are_their_formulas():
    h = torch.randn(3, 4, WIDTH, dtype=torch.float64) * 1e-3
    p = (h**2).sum(-1, keepdim=True) / (TAU + (h**2).sum(-1, keepdim=True))
    norm, ffn = COMPONENTS["ONorm, LayerNorm"], COMPONENTS["OFFN"]
    with torch.no_grad():
        assert torch.allclose(norm(h), p * norm.norm(h), rtol=1e-14)
        assert torch.allclose(ffn(h), h + p * ffn.ffn(ffn.norm(h)), rtol=1e-14)
        assert torch.allclose(OInject(TAU)(h, EMBEDDING), h + p * EMBEDDING, rtol=1e-14)
        assert torch.equal(norm(h, torch.zeros(3, 4)), torch.zeros_like(h))


def test_standardize_is_weighted_moments():
    rng = np.random.default_rng(0)
    x, p = rng.normal(3, 2, (7, WIDTH)), rng.uniform(0, 1, 7)
    p[4] = 0.0
    mean = np.average(x, axis=0, weights=p)
    var = np.average((x - mean) ** 2, axis=0, weights=p)
    x[4] = np.nan
    got_mean, got_scale = OStandardize(eps=0.0).moments(torch.tensor(x), torch.tensor(p))
    np.testing.assert_allclose(got_mean[0], mean, rtol=1e-13)
    np.testing.assert_allclose(got_scale[0], np.sqrt(var), rtol=1e-13)
    out = OStandardize(eps=0.0)(torch.tensor(x), torch.tensor(p))
    x[4] = 0
    np.testing.assert_allclose(out, p[:, None] * (x - mean) / np.sqrt(var), rtol=1e-12)


def test_standardize_with_sample_variance_is_numpys():
    x = torch.randn(6, WIDTH, dtype=torch.float64)
    _, scale = OStandardize(eps=0.0, correction=1.0).moments(x, torch.ones(6))
    np.testing.assert_allclose(scale[0], x.numpy().std(axis=0, ddof=1), rtol=1e-13)


@pytest.mark.parametrize(("present", "correction"), [(0, 0.0), (0, 1.0), (1, 1.0)])
def test_standardize_without_enough_support_has_scale_one(present, correction):
    x, p = torch.randn(5, WIDTH), torch.zeros(5)
    p[:present] = 1.0
    mean, scale = OStandardize(correction=correction).moments(x, p)
    assert torch.equal(scale, torch.ones(1, WIDTH))
    assert torch.equal(mean[0], x[0] if present else torch.zeros(WIDTH))


def test_standardize_leaves_a_constant_column_at_zero():
    x = torch.stack((torch.full((5,), 3.0), torch.arange(5.0)), -1).double().requires_grad_()
    out = OStandardize(eps=0.0)(x, torch.ones(5).double())
    assert out[:, 0].tolist() == [0.0] * 5
    assert out[:, 1].std(correction=0).item() == pytest.approx(1.0)
    out.square().sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", [name for name in COMPONENTS if "OStandardize" not in name])
def test_gradients_of_components(name):
    h = torch.randn(1, 3, WIDTH, dtype=torch.float64) * 1e-3
    h.requires_grad_()
    assert torch.autograd.gradcheck(COMPONENTS[name], h, atol=1e-4, rtol=1e-4, fast_mode=True)


def test_gradient_of_standardize():
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    p = torch.rand(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(OStandardize(), (x, p))


@pytest.mark.parametrize("norm_first", [True, False])
def test_no_nan_gradient_with_null_tokens(norm_first):
    model = drawn(OTransformer(transformer_config(depth=3, norm_first=norm_first))).float()
    h = torch.randn(2, 6, WIDTH)
    h[0, 1] = 0
    h[1] = 0  # a whole table that is not there
    h.requires_grad_()
    model.requires_grad_(True)
    out = model(h)
    grads = torch.autograd.grad(out.square().sum(), [h, *model.parameters()])
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][0, 1] == 0).all()
    assert grads[0][0, 0].abs().max() > 0


def test_autocast_keeps_presence_and_closure():
    model = drawn(OTransformer(transformer_config(depth=2))).float()
    h = torch.randn(2, 30, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        shift, null = shift_and_null(model, h, [4, 30])
    assert null == 0.0
    assert shift <= 0.25  # bfloat16 keeps eight bits of states of order ten
    with torch.no_grad():
        exact = model(h)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            narrow = model(h)
    assert 0 < (narrow - exact).abs().max() < 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"width": 8, "heads": 3},
        {"width": 8, "heads": 4, "kv_heads": 3},
        {"width": 8, "heads": 0},
        {"width": 8, "heads": 2, "tau": 0.0},
    ],
)
def test_bad_attention_sizes_are_refused(settings):
    with pytest.raises(OperatorError):
        OAttentionConfig(**settings)


@pytest.mark.parametrize(
    "name", ["ONorm, LayerNorm", "OFFN", "OInject", "OStandardize", "OAttention"]
)
def test_presence_of_other_tokens_is_refused(name):
    h, p = torch.randn(2, 5, WIDTH, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)
    component = {
        "OInject": lambda h, p: OInject(TAU)(h, EMBEDDING, p),
        "OStandardize": OStandardize(),
        "OAttention": lambda h, p: COMPONENTS["OAttention"](h, p_BS=p),
    }.get(name, COMPONENTS[name])
    assert component(h, presence(h, TAU)).isfinite().all()
    with pytest.raises(ShapeError, match=r"\(2, 5\)"):
        component(h, p)


def test_bad_settings_are_refused():
    with pytest.raises(OperatorError, match="eps"):
        OStandardize(eps=-1.0)
    with pytest.raises(OperatorError, match="norm"):
        transformer_config(norm="batch")
    with pytest.raises(OperatorError, match="source_width"):
        OTransformerConfig(OAttentionConfig(8, 2, source_width=5))
    with pytest.raises(OperatorError, match="tau"):
        OInject(tau=-1.0)
    with pytest.raises(ShapeError, match=f"{WIDTH} wide"):
        COMPONENTS["OAttention"](torch.ones(1, 4, WIDTH + 1))
    with pytest.raises(ShapeError, match="tokens"):
        COMPONENTS["OAttention"](torch.ones(4, WIDTH))
