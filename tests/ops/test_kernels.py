"""Which kernel is chosen, that it is the one that runs, and what each needs of its tensors."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from retrofit.contracts import KERNELS
from retrofit.contracts.figures import Setting
from retrofit.contracts.samples import MASKS, Sample, Shape, draw
from retrofit.ops import (
    AttentionRequest,
    KernelUnavailableError,
    OperatorError,
    ShapeError,
    choose_kernel,
    oattention,
    record_kernels,
)
from retrofit.ops.attention.dispatch import DIRECT_MAX_SOURCES

LONG = Shape(2, 4, 2, 9, 60, 16)
SHORT = Shape(2, 4, 2, 9, 6, 16)
REQUEST = AttentionRequest(
    sources=500,
    head_dim=16,
    value_dim=16,
    dtype=torch.float32,
    device_type="cpu",
    needs_grad=False,
    bias_needs_grad=False,
    eps_mode="absolute",
    compiling=False,
)


def sample(shape=LONG, dtype=torch.float32, mask="none", seed=0) -> Sample:
    return draw(Setting("auto", dtype, seed=seed), shape, mask)


class Ops(TorchDispatchMode):
    """Names of the aten operators that run, and the tensors the flash kernel was given."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []
        self.pointers: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        self.names.append(name)
        if "flash_attention" in name and "backward" not in name:
            self.pointers += [x.data_ptr() for x in args[:3]]
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("change", "kernel"),
    [
        ({}, "fused_lse"),
        ({"sources": DIRECT_MAX_SOURCES}, "direct"),
        ({"sources": DIRECT_MAX_SOURCES + 1}, "fused_lse"),
        ({"dtype": torch.bfloat16}, "fused_lse"),
        ({"dtype": torch.float64}, "fused_lse"),
        ({"needs_grad": True}, "fused_sink"),
        ({"needs_grad": True, "bias_needs_grad": True}, "direct"),
        ({"compiling": True}, "fused_sink"),
        ({"eps_mode": "relative"}, "direct"),
        ({"value_dim": 8}, "direct"),
        ({"device_type": "cuda"}, "fused_sink"),
        ({"device_type": "cuda", "sources": 4}, "fused_sink"),
        ({"device_type": "cuda", "dtype": torch.bfloat16}, "direct"),
        ({"device_type": "cuda", "head_dim": 5, "value_dim": 5}, "direct"),
        ({"device_type": "mps"}, "direct"),
    ],
)
def test_choice_of_the_kernel(change, kernel):
    choice = choose_kernel(replace(REQUEST, **change))
    assert choice.name == kernel
    assert len(choice.reason.split()) > 4


@pytest.mark.parametrize(
    ("backend", "change", "why"),
    [
        ("fused", {"eps_mode": "relative"}, "relative"),
        ("fused", {"bias_needs_grad": True}, "gradient"),
        ("fused", {"value_dim": 8}, "wide"),
        ("fused_sink", {"device_type": "cuda", "dtype": torch.float16}, "float16 on cuda"),
        ("fused", {"device_type": "cuda", "head_dim": 6, "value_dim": 6}, "multiple of 4"),
        ("fused_lse", {"needs_grad": True}, "gradients"),
        ("fused_lse", {"compiling": True}, "compile"),
        ("fused_lse", {"device_type": "cuda"}, "CUDA"),
        ("flash", {}, "no attention kernel"),
    ],
)
def test_explicit_kernel_that_cannot_serve_is_refused(backend, change, why):
    with pytest.raises(KernelUnavailableError, match=why):
        choose_kernel(replace(REQUEST, **change), backend)


def test_fused_is_either_of_the_two():
    assert choose_kernel(REQUEST, "fused").name == "fused_lse"
    assert choose_kernel(replace(REQUEST, needs_grad=True), "fused").name == "fused_sink"


@pytest.mark.parametrize(("shape", "kernel"), [(SHORT, "direct"), (LONG, "fused_lse")])
def test_recorder_counts_what_ran(shape, kernel):
    x = sample(shape)
    with record_kernels() as outer:
        x.run("auto")
        with record_kernels() as inner:
            x.run("auto")
            x.run("naive")
    x.run("auto")
    assert outer == {kernel: 2, "naive": 1}
    assert inner == {kernel: 1, "naive": 1}


def test_recorder_counts_nothing_where_there_is_nothing_to_compute():
    x = sample()
    with record_kernels() as counter:
        replace(x, q_BHSD=x.q_BHSD[:, :, :0], p_BS=x.p_BS[:, :0]).run("auto")
    assert not counter


def test_recorder_belongs_to_its_context():
    x = sample()
    with record_kernels() as counter:
        other = threading.Thread(target=x.run, args=("naive",))
        own = threading.Thread(target=contextvars.copy_context().run, args=(x.run, "naive"))
        for thread in (other, own):
            thread.start()
            thread.join()
    assert counter == {"naive": 1}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("kernel", ["fused_lse", "fused_sink"])
def test_fused_kernels_never_fall_back_to_torchs_maths(kernel, dtype, mask):
    x = sample(dtype=dtype, mask=mask)
    with Ops() as ops:
        x.run(kernel)
    flash = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert ops.names.count(flash) == 1
    assert not {"aten::bmm", "aten::_softmax", "aten::_safe_softmax"} & set(ops.names)


def test_fused_lse_copies_neither_keys_nor_values():
    x = sample(mask="bool")
    x = replace(x, p_BJ=x.p_BJ.clamp(min=1e-3))
    with Ops() as ops:
        x.run("fused_lse")
    assert ops.pointers == [y.data_ptr() for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_layout_of_the_tensors_does_not_matter(kernel):
    """The private flash kernel gives wrong numbers for rows of another stride than 1."""
    x = sample(dtype=torch.float64, mask="bool")

    def turned(y):
        return y.transpose(-1, -2).contiguous().transpose(-1, -2)

    def interleaved(y):
        return y.transpose(1, 2).contiguous().transpose(1, 2)

    want = x.run(kernel)
    for layout in (turned, interleaved):
        y = replace(
            x,
            q_BHSD=layout(x.q_BHSD),
            k_BhJD=layout(x.k_BhJD),
            v_BhJD=layout(x.v_BhJD),
            p_BJ=x.p_BJ.mT.contiguous().mT,
            mask=turned(x.mask),
        )
        assert torch.allclose(y.run(kernel), want, atol=1e-13, rtol=0)


@pytest.mark.parametrize("eps", [0.0, 1e-2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_width_of_one_with_any_stride(kernel, eps):
    """torch calls an axis of size 1 contiguous whatever its stride; the fused kernels do not."""
    x = sample(Shape(2, 4, 2, 9, 60, 1), dtype=torch.float64)
    x = replace(x, p_BJ=x.p_BJ.clamp(min=1e-3))

    turned = [y.as_strided(y.shape, (*y.stride()[:3], 7)) for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD)]
    assert all(y.is_contiguous() for y in turned)
    y = replace(x, q_BHSD=turned[0], k_BhJD=turned[1], v_BhJD=turned[2])
    assert torch.allclose(y.run(kernel, eps), x.run(kernel, eps), atol=1e-13, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_shared_heads_are_repeated_heads(kernel):
    x = sample(dtype=torch.float64)
    y = replace(x, k_BhJD=x.k_BhJD.repeat_interleave(2, 1), v_BhJD=x.v_BhJD.repeat_interleave(2, 1))
    assert torch.allclose(x.run(kernel), y.run(kernel), atol=1e-13, rtol=0)
    wrong = replace(x, k_BhJD=x.k_BhJD.repeat(1, 2, 1, 1), v_BhJD=x.v_BhJD.repeat(1, 2, 1, 1))
    assert not torch.allclose(x.run(kernel), wrong.run(kernel), atol=1e-3)


@pytest.mark.parametrize("kernel", ["naive", "exact", "direct"])
def test_values_may_have_another_width(kernel):
    x = sample(dtype=torch.float64)
    narrow = replace(x, v_BhJD=x.v_BhJD[..., :5])
    assert torch.allclose(narrow.run(kernel), x.run(kernel)[..., :5], atol=1e-13, rtol=0)


@pytest.mark.parametrize("kernel", ["exact", "direct"])
@pytest.mark.parametrize("mask", MASKS)
def test_receivers_in_parts_are_receivers_at_once(kernel, mask, monkeypatch):
    x = sample(dtype=torch.float64, mask=mask)
    want = x.run(kernel)
    monkeypatch.setattr("retrofit.ops.attention.kernels.MAX_SCORES", 2 * 4 * 60 * 2)
    with Ops() as ops:
        got = x.run(kernel)
    assert "aten::cat" in ops.names
    assert torch.allclose(got, want, atol=1e-13, rtol=0)


@pytest.mark.parametrize("kernel", ["naive", "exact", "direct"])
@pytest.mark.parametrize("eps_mode", ["absolute", "relative"])
@pytest.mark.parametrize("mask", ["none", "float", "per_key"])
def test_gradients_to_everything(kernel, eps_mode, mask):
    x = sample(Shape(1, 2, 1, 2, 3, 2), torch.float64, mask)
    mask_tensor = None if x.mask is None else x.mask.double().clamp(0.1, 0.9)
    inputs = [
        y.clone().requires_grad_()
        for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD, x.p_BS.clamp(0.2), x.p_BJ.clamp(0.2))
    ]
    if mask_tensor is not None:
        inputs.append(mask_tensor.requires_grad_())

    def attend(q, k, v, p_BS, p_BJ, mask=None):
        return oattention(
            q, k, v, p_BS, p_BJ, mask=mask, eps_den=0.1, eps_mode=eps_mode, backend=kernel
        )

    assert torch.autograd.gradcheck(attend, inputs)


@pytest.mark.parametrize("eps_den", [0.0, 0.1])
def test_gradients_of_the_fused_kernel(eps_den):
    x = sample(Shape(1, 2, 2, 3, 4, 4), torch.float64)
    x = replace(x, p_BJ=torch.tensor([[0.5, 0.0, 1.0, 1e-3]], dtype=torch.float64))
    leaves = [y.clone().requires_grad_() for y in (x.q_BHSD, x.k_BhJD, x.v_BhJD)]

    def grads(kernel):
        out = oattention(*leaves, x.p_BS, x.p_BJ, eps_den=eps_den, backend=kernel)
        return torch.autograd.grad(out.square().sum(), leaves)

    with record_kernels() as counter:
        fused = grads("fused")
    assert counter == {"fused_sink": 1}
    for got, want in zip(fused, grads("naive"), strict=True):
        assert torch.allclose(got, want, atol=1e-12)
        assert want.abs().max() > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_dtype_is_that_of_the_queries_under_autocast(kernel):
    x = sample()
    want = x.run(kernel)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = x.run(kernel)
    assert torch.equal(got, want)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda x: replace(x, q_BHSD=x.q_BHSD[0]), "must be \\(B, H, tokens, D\\)"),
        (lambda x: replace(x, k_BhJD=x.k_BhJD[:, :, :, :3]), "must be \\(B, h, J, D\\)"),
        (lambda x: replace(x, v_BhJD=x.v_BhJD[:, :, 1:]), "must be \\(B, h, J, D\\)"),
        (lambda x: replace(x, q_BHSD=x.q_BHSD[:, :3]), "not a multiple"),
        (lambda x: replace(x, k_BhJD=x.k_BhJD.double()), "one floating dtype"),
        (lambda x: replace(x, p_BJ=x.p_BJ[:, 1:]), "p_BJ must be"),
        (lambda x: replace(x, p_BS=x.p_BS[:, 1:]), "p_BS must be"),
        (lambda x: replace(x, mask=torch.ones(3, 3)), "mask must broadcast"),
        (lambda x: replace(x, mask=torch.ones(60, dtype=torch.int64)), "bool or floating"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(change, error):
    with pytest.raises(ShapeError, match=error):
        change(sample()).run("auto")


@pytest.mark.parametrize(
    "settings", [{"eps_den": -1.0}, {"eps_den": float("nan")}, {"eps_mode": "none"}]
)
def test_bad_settings_are_refused(settings):
    x = sample()
    with pytest.raises(OperatorError, match="eps"):
        oattention(x.q_BHSD, x.k_BhJD, x.v_BhJD, x.p_BS, x.p_BJ, **settings)


def test_operators_import_torch_alone():
    code = (
        "import sys, importlib.util as u, types\n"
        "package = types.ModuleType('retrofit')\n"
        "package.__path__ = list(u.find_spec('retrofit').submodule_search_locations)\n"
        "sys.modules['retrofit'] = package\n"
        "import retrofit.ops\n"
        "print([m for m in ('tabpfn', 'sklearn', 'pandas', 'scipy') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
