"""One self-contained HTML page: it sorts and filters, needs no network, and follows dark mode.

Imports neither torch nor tabpfn.
"""

from __future__ import annotations

import math
import re
import shlex
from importlib import resources
from typing import TYPE_CHECKING, Any

from experiments.io.text import visible
from experiments.report.columns import interval, percent, shown, size
from experiments.report.contents import parts
from experiments.report.plot_style import COLOURS
from experiments.report.remarks import notice, plain, remarks
from experiments.sweep.variant_name import MARK
from retrofit.words import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.report.plot_style import Picture
    from experiments.report.stats import VariantSummary
    from experiments.report.summary import Summary

_WORDS = (
    ("stock", "the host as it is"),
    ("oa", "its attention replaced by OAttention"),
    ("full", "attention, feed-forward and norms replaced"),
    ("closed", "everything replaced through which an absent row or column could act"),
    ("presence", "|h|\u00b2 / (tau + |h|\u00b2) of a hidden state h: 0 is absent, 1 is stock"),
    ("tau", "the squared length at which a hidden state is half present, one per stream"),
    (
        "null radius",
        "the length below which a hidden state counts as absent, beside the median one",
    ),
    ("change", "of the test RMSE, in percent of stock's; below zero the variant is better"),
    ("win, loss", "a change beyond the noise floor; in colour beyond the equivalence margin"),
)
_HALF_BAR = 50.0
_MOST_CARDS = 4
"""Of more variants the table says it in less space."""


def html_page(summary: Summary, pictures: Sequence[Picture]) -> str:
    """The whole of ``report.html``."""
    from jinja2 import BaseLoader, Environment
    from markupsafe import Markup

    environment = Environment(
        loader=BaseLoader(), autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_clean
    )
    run, whose = summary.run, notice(summary.host)
    tables = [part for key, part in parts(summary).items() if key != "cases" and part.table.rows]
    return environment.from_string(_asset("page.html")).render(
        title=f"{summary.suite} on host {summary.host}",
        notice=plain(whose) if summary.built_in else "",
        unfinished="some cases have no row yet." if run.get("status") == "running" else "",
        css=Markup(_asset("page.css").strip()),
        script=Markup(_asset("page.js").strip()),
        cards=[_card(item) for item in summary.variants if len(summary.variants) <= _MOST_CARDS],
        pictures=[
            {"title": picture.title, "svg": Markup(_inline(picture.svg))} for picture in pictures
        ],
        legend=list(_legend(summary)),
        remarks=[plain(remark) for remark in remarks(summary) if remark != whose],
        tables=tables,
        variants=[item.variant for item in summary.variants],
        cases=list(_cases(summary)),
        failures=summary.failures,
        facts=list(_facts(run)),
    )


def _asset(name: str) -> str:
    path = resources.files("experiments.report") / "template" / name
    return path.read_text(encoding="utf-8")


def _clean(value: Any) -> Any:
    """Text without what HTML cannot hold; numbers and markup as they are."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _inline(svg: str) -> str:
    """The figure for a page: no XML header, and colours that follow the page's scheme."""
    start = svg.index("<svg")
    names = {code: name for name, code in COLOURS.items()}
    pattern = re.compile("|".join(names))
    return pattern.sub(lambda code: f"var(--{names[code.group()]})", svg[start:])


def _card(item: VariantSummary) -> dict[str, Any]:
    return {
        "name": f"{item.variant}: mean RMSE change",
        "mean": shown(item.mean_pct, percent),
        "facts": [
            ("95 % interval", interval((item.ci_low_pct, item.ci_high_pct))),
            ("wins / ties / losses", f"{item.wins} / {item.ties} / {item.losses}"),
            ("largest change", shown(item.largest_pct, size)),
            ("complete pairs", f"{item.cases} of {item.cases + item.left_out}"),
        ],
    }


def _legend(summary: Summary) -> Iterator[tuple[str, str]]:
    """Words of this page and what they mean, those of other variants left out."""
    kinds = {"stock", *(item.variant.partition(MARK)[0] for item in summary.variants)}
    yield from ((word, text) for word, text in _WORDS if word not in VARIANTS or word in kinds)


def _cases(summary: Summary) -> Iterator[dict[str, Any]]:
    noise_pct = summary.noise_pct if summary.noise else 0.0
    margins = {item.variant: item.tost_margin_pct for item in summary.variants}
    longest = summary.pairs["delta_pct"].abs().max() if len(summary.pairs) else math.nan
    for row in summary.pairs.to_dict("records"):
        change = float(row["delta_pct"])
        usable = not row["note"] and not math.isnan(change)
        state = "left out"
        if usable:
            state = "tie" if abs(change) <= noise_pct else ("win" if change < 0 else "loss")
        # A change within the margin that was set before is shown, in no colour.
        tone = state if state in ("win", "loss") else ""
        within = abs(change) <= margins.get(row["variant"], 0.0)
        yield {
            "dataset": row["dataset"],
            "seed": row["seed"],
            "variant": row["variant"],
            "state": state,
            "note": row["note"],
            "tone": f"{tone} within" if tone and within else tone,
            "width": f"{_HALF_BAR * abs(change) / longest:.1f}" if tone else "0",
            "change": _number(change),
            "change_text": shown(change, percent),
            "stock": _number(row["rmse_stock"]),
            "stock_text": shown(row["rmse_stock"], "{:.6g}".format),
            "rmse": _number(row["rmse_variant"]),
            "rmse_text": shown(row["rmse_variant"], "{:.6g}".format),
        }


def _number(value: float) -> str:
    """A number for the script to compare; empty for NaN."""
    return "" if math.isnan(value) else repr(float(value))


def _facts(run: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What ran, as pairs of name and text; nothing where there is no ``run.json``."""
    if not run:
        yield "run record", "none: this folder has no run.json"
        return
    yield "command", shlex.join(run.get("command", []))
    code = run.get("code", {})
    if code.get("commit"):
        edited = " with uncommitted edits" if code.get("dirty") else ""
        yield "code", f"commit {code['commit']}{edited}"
    yield "host", f"{run['host']['name']}, sha256 {run['host']['sha256']}"
    yield "versions", ", ".join(f"{name} {text}" for name, text in run["versions"].items())
    machine = run.get("machine", {})
    yield (
        "machine",
        f"{machine.get('system')}, {machine.get('processor')}, Python {machine.get('python')}",
    )
    yield "arithmetic", f"{run.get('dtype')} on {run.get('device')}"
    yield "threads of torch", str(machine.get("torch_threads"))
    times = run.get("times", {})
    yield "time", f"{times.get('started')} to {times.get('finished', 'not finished')}"
    for name, table in run.get("tables", {}).items():
        size = f"{table['rows']} rows, {table['columns']} columns"
        text = f"{size}; {table['source']}; licence: {table['licence']}"
        yield f"data set {name}", text
