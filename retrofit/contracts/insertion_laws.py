"""Laws of OAttention about NULL sources that are inserted, measured for one kernel at one dtype.

Shapes: B batch, S receivers, J sources, H heads, D head width.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from retrofit.contracts.bounds import shift_figure, zero_figure
from retrofit.contracts.figures import deviation, largest, worst
from retrofit.contracts.samples import (
    MASKS,
    SHAPES,
    Sample,
    Shape,
    beside_a_fuller,
    draw,
    everyone_present,
    serves,
    with_null_sources,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from retrofit.contracts.figures import Figure, Setting

LENGTHS = (
    (SHAPES[0], "short"),
    # Rows of 5 and 33 numbers start at no boundary of the processor's vectors.
    (SHAPES[0]._replace(width=5), "short, 5 wide"),
    (SHAPES[0]._replace(sources=33, width=33), "short, 33 wide"),
    (SHAPES[1], "long"),
)


def null_source_insertion(setting: Setting) -> list[Figure]:
    """NULL sources inserted anywhere change no output.

    All other sources are present, so that before nothing is moved, and keys and values come in
    two layouts in memory, contiguous and as projections make them.
    """
    law, figures = "null source insertion", []
    for shape, length in _served(setting):
        for case, insertions in _insertions(shape.sources).items():
            shifts, scale = [], 0.0
            for style, layout in itertools.product(MASKS, (_as_it_is, _as_projections)):
                x = layout(everyone_present(draw(setting, shape, style)))
                before = x.run(setting.kernel)
                scale = max(scale, largest(before))
                for positions in insertions:
                    wide = layout(with_null_sources(x, positions, setting.seed))
                    shifts.append(deviation(wide.run(setting.kernel), before))
            case, shift = f"{case}, {length} axis", worst(shifts)
            if setting.device == "cpu":
                figures.append(zero_figure(setting, law, case, shift))
            else:
                figures.append(shift_figure(setting, law, case, shift, scale))
    return figures


def _served(setting: Setting) -> list[tuple[Shape, str]]:
    """Return the shapes that the setting's kernel exists for: on CUDA not for every width."""
    return [
        (shape, name) for shape, name in LENGTHS if serves(setting.kernel, draw(setting, shape))
    ]


def _as_it_is(x: Sample) -> Sample:
    return x


def _as_projections(x: Sample) -> Sample:
    """Return keys and values as views of contiguous (B, J, h, D)."""
    k_BhJD, v_BhJD = (y.transpose(1, 2).contiguous().transpose(1, 2) for y in (x.k_BhJD, x.v_BhJD))
    return replace(x, k_BhJD=k_BhJD, v_BhJD=v_BhJD)


def ragged_null_sources(setting: Setting) -> list[Figure]:
    """NULL sources change no output beside a batch element that has present sources there.

    They cannot be dropped then, so their weight of 0 alone silences them.
    """
    figures = []
    for shape, length in _served(setting):
        for case, insertions in _insertions(shape.sources).items():
            shifts, scale = [], 0.0
            for style in MASKS:
                x = draw(setting, shape, style)
                before = beside_a_fuller(x).run(setting.kernel)[:-1]
                scale = max(scale, largest(before))
                for positions in insertions:
                    wide = beside_a_fuller(with_null_sources(x, positions, setting.seed))
                    shifts.append(deviation(wide.run(setting.kernel)[:-1], before))
            case = f"{case}, {length} axis"
            law = "null source insertion, ragged batch"
            figures.append(shift_figure(setting, law, case, worst(shifts), scale))
    return figures


def masked_insertion_in_torch(setting: Setting) -> list[Figure]:
    """Measure the same insertions in torch's own attention, the new sources masked away.

    A control: how steady softmax attention of this dtype is where a source cannot matter.
    """
    figures = []
    for shape, length in ((SHAPES[0], "short"), (SHAPES[1], "long")):
        x = draw(setting, shape)
        x = replace(x, p_BJ=torch.ones_like(x.p_BJ))
        before = _torch_attention(x)
        for case, insertions in _insertions(shape.sources).items():
            wide = [with_null_sources(x, positions, setting.seed) for positions in insertions]
            shift = worst([deviation(_torch_attention(y), before) for y in wide])
            law, case = "control: torch's attention, source masked", f"{case}, {length} axis"
            figures.append(shift_figure(setting, law, case, shift, largest(before)))
    return figures


def _insertions(sources: int) -> dict[str, list[list[int]]]:
    every = range(sources + 1) if sources < 100 else range(0, sources + 1, 100)
    return {
        "end": [[sources]],
        "middle": [[sources // 2]],
        "several": [[0, 1, sources // 2, sources // 2, sources]],
        "every position": [[position] for position in every],
    }


def _torch_attention(x: Sample) -> Tensor:
    visible_B11J = (x.p_BJ > 0)[:, None, None, :]
    groups = x.q_BHSD.shape[1] // x.k_BhJD.shape[1]
    k_BHJD, v_BHJD = (y.repeat_interleave(groups, 1) for y in (x.k_BhJD, x.v_BhJD))
    return F.scaled_dot_product_attention(x.q_BHSD, k_BHJD, v_BHJD, attn_mask=visible_B11J)


def self_attention_insertion(setting: Setting) -> list[Figure]:
    """A NULL token inserted as receiver and source changes nothing and gets exactly 0."""
    x = draw(setting, Shape(2, 4, 4, 12, 12, 16))
    position = 5
    before = replace(x, p_BS=x.p_BJ).run(setting.kernel)
    wide = with_null_sources(x, [position], setting.seed)
    order = torch.tensor([*range(position), 0, *range(position, 12)])
    after = replace(wide, q_BHSD=x.q_BHSD[:, :, order], p_BS=wide.p_BJ).run(setting.kernel)
    old = torch.arange(13) != position
    law, shift = "self-attention insertion", deviation(after[:, :, old], before)
    return [
        shift_figure(setting, law, "old tokens", shift, largest(before)),
        zero_figure(setting, law, "NULL token", largest(after[:, :, ~old])),
    ]


INSERTION_LAWS: dict[str, Callable[[Setting], list[Figure]]] = {
    law.__name__: law
    for law in (null_source_insertion, ragged_null_sources, self_attention_insertion)
}
