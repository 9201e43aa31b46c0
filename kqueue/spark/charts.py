"""Chart style and files: matplotlib without a display, colours for colour-blind readers.

    with chart(file, "Delays", height_px=900) as figure:
        axes = figure.subplots()
        axes.plot(hours, delays, color=COLOURS["blue"])

matplotlib (of `kqueue[spark]`) is imported on the first chart. Its global state changes only while
a chart is drawn. A lock serializes drawing threads.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_PX, HEIGHT_PX = 1600, 1000
DPI = 100
INK, FAINT, EMPTY = "#262626", "#8c8c8c", "#e6e6e6"
"""Colours of text, of background elements, and of heatmap cells without a value."""
COLOURS: dict[str, str] = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#262626",
}
"""By name, in the order of use.

Source: Okabe and Ito, Color Universal Design, without their yellow.
"""
SEQUENCE = "magma_r"
"""The colour map of heatmaps: lightness falls evenly, so it works for colour-blind readers."""
STYLE: dict[str, Any] = {
    "font.size": 14,
    "axes.titlesize": 16,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 14,
    "figure.titlesize": 22,
    "xtick.labelsize": 13,
    "ytick.labelsize": 13,
    "legend.frameon": False,
    "lines.linewidth": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": EMPTY,
    "axes.axisbelow": True,
    "text.parse_math": False,  # names of topics are shown as they are
    "axes.prop_cycle": f"cycler(color={list(COLOURS.values())})",
    "figure.constrained_layout.h_pad": 0.12,
    "figure.constrained_layout.w_pad": 0.12,
    "savefig.facecolor": "white",
}
_drawing = threading.RLock()


def require_matplotlib() -> None:
    """Raise ExtraNeeded, with install instructions, if matplotlib is missing."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise ExtraNeeded(f"pictures need matplotlib ({error}): {install_hint('spark')}") from None


@contextlib.contextmanager
def chart(
    file: str | os.PathLike[str], title: str, *, width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX
) -> Iterator[Figure]:
    """Yield a figure with `title`; write it to `file` when the block ends without an error.

    The file is replaced atomically. Raises: ExtraNeeded: matplotlib is missing. OSError.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with _drawing, matplotlib.rc_context({**_defaults(), **STYLE}):
        figure = Figure(figsize=(width_px / DPI, height_px / DPI), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.012, horizontalalignment="left", fontweight="bold")
        yield figure
        _save(figure, Path(file))


def _defaults() -> dict[str, Any]:
    """Return matplotlib's own defaults, independent of the user's settings."""
    import matplotlib

    return {name: value for name, value in matplotlib.rcParamsDefault.items() if name != "backend"}


def _save(figure: Figure, file: Path) -> None:
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        figure.savefig(fresh, format="png")
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)


def count_axis(axes: Axes, which: str = "y") -> None:
    """Format the ``x`` or ``y`` axis with whole numbers and thousands separators."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,.0f}"))


def bars(axes: Axes, values: dict[str, float], *, colour: str = COLOURS["blue"], unit: str = "") -> None:
    """Draw horizontal bars, the first on top, each labelled with its value, without axes."""
    names = list(values)
    made = axes.barh(names, list(values.values()), color=colour, height=0.7)
    axes.bar_label(made, labels=[f"{value:,.0f}{unit}" for value in values.values()], padding=6)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False, bottom=False, labelbottom=False)
