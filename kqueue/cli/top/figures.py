"""Rates, durations and series as text of few characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

UNKNOWN = "-"
BARS = "▁▂▃▄▅▆▇█"
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
DAYS_MAX = 99


def number_text(value: float) -> str:
    """Return a count or rate: ``0.4``, ``17``, ``1,234``, ``12.3k``, ``1.2M`` (powers of 1000)."""
    size = abs(value)
    if size < 9.95:
        return f"{value:.1f}".removesuffix(".0").replace("-0", "0", value > -0.05)
    if size < 9_999.5:
        return f"{value:,.0f}"
    for unit in "kMG":
        value /= 1000
        if abs(value) < 999.95:
            return f"{value:.1f}{unit}"
    return f"{value / 1000:,.1f}T"


def count_text(count: int) -> str:
    """Return a whole number with all digits, above ten million as `number_text`."""
    return f"{count:,}" if abs(count) < 10_000_000 else number_text(count)


def short_time_text(seconds: float) -> str:
    """Return the time of a request: ``0.25 ms``, ``12 ms``, ``1.50 s``."""
    if seconds < 0.9995:
        ms = seconds * 1000
        return f"{ms:.2f} ms" if ms < 0.995 else f"{ms:.1f} ms" if ms < 9.95 else f"{ms:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 99.5 else duration_text(seconds)


def duration_text(seconds: float) -> str:
    """Return a duration in at most two units: ``12 s``, ``3 m 20 s``, ``2 h 5 m``, ``4 d 3 h``."""
    if not math.isfinite(seconds) or seconds > DAYS_MAX * DAY_S:
        return f"> {DAYS_MAX} d"
    whole = math.ceil(seconds)
    for unit_s, unit, lower_s, lower in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "m"),
        (MINUTE_S, "m", 1, "s"),
    ):
        if whole >= unit_s:
            rest = whole % unit_s // lower_s
            return f"{whole // unit_s} {unit} {rest} {lower}" if rest else f"{whole // unit_s} {unit}"
    return f"{whole} s"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Return the last `width` values as bars, the greatest as the highest one; a value that is not
    known is a space.
    """
    shown = values[-width:]
    greatest = max((value for value in shown if value is not None), default=0.0)
    bars = "".join(" " if value is None else _bar(value, greatest) for value in shown)
    return bars.rjust(width)


def _bar(value: float, greatest: float) -> str:
    return BARS[0] if greatest <= 0 else BARS[min(len(BARS) - 1, int(max(0.0, value) / greatest * len(BARS)))]
