"""How pictures look and are written: matplotlib without a screen, one calm style, colours that
colour-blind eyes can tell apart.

    with picture(file, "Delays", height_px=900) as figure:
        axes = figure.subplots()
        axes.plot(hours, delays, color=COLOURS["blue"])

matplotlib (of `kqueue[spark]`) is imported when a picture is drawn. Nothing here touches its global
state but for the time of drawing, so that it may be used beside other users of matplotlib; drawings
in several threads at once are kept apart by a lock.
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
"""For text; for what stands behind it; for cells of a heatmap that have no value."""
COLOURS: dict[str, str] = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#262626",
}
"""By name, in the order in which they are to be used. Source: Okabe and Ito, Color Universal
Design, without their yellow.
"""
SEQUENCE = "magma_r"
"""The colour map of heatmaps: from pale to dark in even steps, which eyes that lack a colour see
too.
"""
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
    """Raises ExtraNeeded: matplotlib is missing; the message says how to get it."""
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise ExtraNeeded(f"pictures need matplotlib ({error}): {install_hint('spark')}") from None


@contextlib.contextmanager
def picture(
    file: str | os.PathLike[str], title: str, *, width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX
) -> Iterator[Figure]:
    """A figure to draw on, in our style, with `title` above all; after the block it is written to
    `file`, unless the block raises.

    Its parts are laid out so that they don't overlap. A file that is there is replaced at once:
    nobody ever sees half a picture. Raises: ExtraNeeded: matplotlib is missing. OSError: the file
    can't be written.
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
    """matplotlib's own settings, whatever the user has set for other pictures."""
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
    """Whole numbers with commas (``1,234``) on an axis, ``x`` or ``y``."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:,.0f}"))


def bars(axes: Axes, values: dict[str, float], *, colour: str = COLOURS["blue"], unit: str = "") -> None:
    """Horizontal bars, the first on top, each with its value behind it; nothing but their names is
    left of them.
    """
    names = list(values)
    made = axes.barh(names, list(values.values()), color=colour, height=0.7)
    axes.bar_label(made, labels=[f"{value:,.0f}{unit}" for value in values.values()], padding=6)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False, bottom=False, labelbottom=False)
