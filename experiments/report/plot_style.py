"""How figures look, and how they become bytes that a second run repeats.

Every colour is one of ``COLOURS``, so that a page can swap them for a dark background.
"""

from __future__ import annotations

import io
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.errors import MissingExtraError
from experiments.io.text import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

SURFACE, INK, MUTED, GRID, BAND = "#ffffff", "#1b1f24", "#57606a", "#d9dee3", "#f3e3b1"
# Okabe and Ito's palette, which colour-blind readers can tell apart.
VARIANT_COLOURS = {"oa": "#0072b2", "full": "#d55e00", "closed": "#009e73"}
OTHER_COLOUR = "#aa4499"
MARKERS = {"oa": "o", "full": "s", "closed": "D"}
COLOURS = {
    "surface": SURFACE,
    "ink": INK,
    "muted": MUTED,
    "grid": GRID,
    "band": BAND,
    **VARIANT_COLOURS,
    "other": OTHER_COLOUR,
}
_LABEL_LENGTH = 48
_DPI = 160


@dataclass(frozen=True)
class Picture:
    """One figure as files."""

    name: str
    title: str
    """What it shows, in one sentence; the alternative text of an image."""
    svg: str
    png: bytes


def render(name: str, title: str, draw: Callable[[], Figure]) -> Picture:
    """Draw a figure in the project's style.

    Raises:
        MissingExtraError: matplotlib is not installed, or cannot be used.
    """
    try:
        with without_backend():
            import matplotlib as mpl
    except Exception as error:  # absent, too old, or broken in any way of its own
        reason = shortened(visible(error), 100) or type(error).__name__
        raise MissingExtraError(
            f"figures need matplotlib ({reason}); pip install -U 'oretro[plots]', or pass "
            "--no-figures"
        ) from None
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.family": ["DejaVu Sans", "sans-serif"],
        "font.size": 9,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": MUTED,
        "axes.facecolor": SURFACE,
        "figure.facecolor": SURFACE,
        "savefig.facecolor": SURFACE,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "legend.frameon": False,
        "axes.unicode_minus": True,
    }
    with mpl.rc_context(), warnings.catch_warnings():
        # From matplotlib's own settings and not from those of whoever draws.
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        # A reader's browser has the font that a name needs, even where this machine has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = draw()
        vector, pixels = io.StringIO(), io.BytesIO()
        figure.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
        figure.savefig(pixels, format="png", dpi=_DPI, metadata={"Software": None})
    return Picture(name, title, vector.getvalue(), pixels.getvalue())


@contextmanager
def without_backend() -> Iterator[None]:
    """Hide a backend, such as a notebook's, that this environment may lack: none is needed."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with axes side by side; pyplot's global state is not touched."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes: Any = figure.subplots(1, columns, sharey=False, squeeze=False)
    return figure, list(axes[0])


def label(text: object, length: int = _LABEL_LENGTH) -> str:
    """A foreign name as a label of bounded length."""
    return shortened(visible(text), length)


def literal(texts: Text | list[Text]) -> None:
    """Show texts as they are: a dollar in a name is not the start of a formula."""
    for text in texts if isinstance(texts, list) else [texts]:
        text.set_parse_math(False)


def colour(base: str) -> str:
    """The colour of a variant."""
    return VARIANT_COLOURS.get(base, OTHER_COLOUR)


def marker(base: str) -> str:
    """The marker of a variant."""
    return MARKERS.get(base, "^")
