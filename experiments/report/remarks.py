"""What a reader must know beside the figures: whose model they are of, and what they do not claim.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from experiments.report.columns import size
from experiments.report.presence_sweep import presence_points
from experiments.sweep.variant_name import MARK
from retrofit.words import BUILT_IN_MODELS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.report.stats import VariantSummary
    from experiments.report.summary import Summary


class Code(str):
    """A part of a sentence that is a name of the program, which markdown sets as code."""

    __slots__ = ()


Sentence = tuple[str, ...]
"""Parts that follow each other without a gap."""

_LIMITS = (
    "Limits: calibrated near-identity on these cases only. No universal no-loss or superiority is "
    "claimed, no closure of the whole host"
)
_CLOSED = "closed"
_LEVEL = 0.05
"""Of the test for equivalence."""
_EPS = (1e-8, "absolute")
"""eps_den and its mode unless a configuration says otherwise."""


def plain(sentence: Sentence) -> str:
    """The sentence without any mark-up."""
    return "".join(sentence)


def notice(host: str) -> Sentence:
    """What to say wherever figures of a built-in host appear."""
    model = BUILT_IN_MODELS.get(host, "TabPFN")
    text = (
        f" is a small model of the {model} architecture that this project trained on synthetic "
        f"tasks. It is not Prior Labs' {model}, and these figures say nothing about that model's "
        "accuracy."
    )
    return ("The host ", Code(host), text)


def remarks(summary: Summary) -> list[Sentence]:
    """Everything that a page says beside its tables, one sentence or two each."""
    lines: list[Sentence] = [verdict(item) for item in summary.variants]
    for floor in summary.noise:
        mean, largest = size(floor.mean_abs_pct), size(floor.largest_pct)
        text = f": mean {mean}, largest {largest} over {floor.cases} cases."
        lines.append(("Noise floor, ", Code(floor.condition), text))
    if presence_points(summary):
        sweep = (
            "As the target presence goes to 1, tau and the RMSE change go to 0, and so does the "
            "null radius: a small change is no success by itself."
        )
        lines.append((sweep,))
    for name, radius in summary.null_radius.items():
        if MARK not in name:
            text = f": median {radius.median:.3g}, largest {radius.max:.3g} of a stream's median "
            lines.append(("Null radius, ", Code(name), text + "carrier norm."))
    config = summary.config
    if config and any(MARK not in item.variant for item in summary.variants):
        lines.append((_tau(config),))
    eps = (config.get("eps_den", _EPS[0]), config.get("eps_mode", _EPS[1]))
    if eps != _EPS:
        lines.append((f"eps_den was {eps[0]:g}, {eps[1]}, rather than {_EPS[0]:g}, {_EPS[1]}.",))
    left_out = max((item.left_out for item in summary.variants), default=0)
    if left_out:
        text = (
            ", or stock's RMSE is 0. Means and medians are over the other cases, so a data set "
            "that lacks some weighs less; intervals and tests weigh all data sets equally."
        )
        lead = f"{left_out} case(s) left out: one of the paired rows is missing or not "
        lines.append((lead, Code("ok"), text))
    if dead := summary.statuses.get("dead", 0):
        text = (
            f"{dead} of them because the host is dead there: stock predicts one value for all test "
            "rows, so no change can be measured."
        )
        lines.append((text,))
    if summary.built_in:
        lines.append(notice(summary.host))
    lines.append(limits(item.variant for item in summary.variants))
    return lines


def verdict(item: VariantSummary) -> Sentence:
    """Whether a variant is as good as stock, within the margin that was set before."""
    within = f"equivalent to stock within {item.tost_margin_pct:g} % of RMSE"
    if math.isnan(item.tost_p):
        said = f": too few data sets to test whether it is {within}"
    elif item.tost_p < _LEVEL:
        said = f" is {within} (p = {item.tost_p:.2g}, {item.datasets} data sets)"
    else:
        said = f" is not shown to be {within} (p = {item.tost_p:.2g}, {item.datasets} data sets)"
    return (Code(item.variant), f"{said}; largest change of one case {size(item.largest_pct)}.")


def limits(variants: Iterable[str]) -> Sentence:
    """What the figures of these variants do not claim."""
    closed = any(name.partition(MARK)[0] == _CLOSED for name in variants)
    exception = (" but for ", Code(_CLOSED)) if closed else ()
    return (_LIMITS, *exception, ", and no general meaning of missing values.")


def _tau(config: dict[str, Any]) -> str:
    if config.get("tau") is not None:
        return f"tau was given: {config['tau']:g} at every site."
    return (
        "tau was calibrated per site so that the smallest legitimate carriers have presence "
        f"{config['target_presence']:g}."
    )
