"""Units of values in charts, and the ticks of axes."""

from __future__ import annotations

import enum
import math
from datetime import UTC, datetime

from kqueue.base.text import size_text

TICKS = 4
TIME_STEPS_MS = tuple(
    seconds * 1000 for seconds in (1, 5, 15, 30, 60, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
)
TIME_TICKS_MAX = 7
MINUTE_MS = 60_000


class Unit(enum.Enum):
    """What a chart's values are. The value is the text beside the axis."""

    RECORDS = "records"
    RECORDS_PER_S = "records/s"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    REQUESTS_PER_S = "requests/s"
    ERRORS_PER_S = "errors/s"
    SECONDS = "time"
    COUNT = "count"
    PROCESSORS = "processors"


def value_text(value: float | None, unit: Unit) -> str:
    """Return a value as text for people; None: a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit is Unit.BYTES:
        return size_text(value)
    if unit is Unit.BYTES_PER_S:
        return f"{size_text(value)}/s"
    if unit is Unit.SECONDS:
        return duration_text(value)
    return _number_text(value)


def duration_text(seconds: float) -> str:
    """Return a duration in the unit that suits it: ``250 µs``, ``3.4 ms``, ``12 s``."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if abs(seconds) * factor < 999.5:
            return f"{_short(seconds * factor)} {unit}"
    return f"{_short(seconds)} s"


def axis_text(value: float, unit: Unit) -> str:
    """Return the text of a tick: as `value_text`, with thousands and millions shortened."""
    if unit in (Unit.BYTES, Unit.BYTES_PER_S, Unit.SECONDS):
        return value_text(value, unit).replace(".0 ", " ")
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{_short(value / factor)}{letter}"
    return _short(value)


WHOLE = (Unit.RECORDS, Unit.COUNT)
"""Units whose values are whole numbers."""


def value_ticks(highest: float, unit: Unit = Unit.RECORDS_PER_S) -> list[float]:
    """Return round ticks from 0 to the highest value or more; some if it is 0."""
    if not math.isfinite(highest) or highest <= 0:
        return [0.0, 1.0]
    raw = highest / TICKS
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw * 0.999999)
    if unit in WHOLE:
        step = math.ceil(step)
    return [number * step for number in range(math.ceil(highest / step - 1e-9) + 1)]


def time_ticks(first_ms: int, last_ms: int) -> list[int]:
    """Return round times of UTC within the range, some seven of them."""
    span_ms = max(1, last_ms - first_ms)
    step_ms = next((step for step in TIME_STEPS_MS if span_ms / step <= TIME_TICKS_MAX), TIME_STEPS_MS[-1])
    if span_ms / step_ms > 2 * TIME_TICKS_MAX:  # days; no chart of ours
        step_ms *= math.ceil(span_ms / step_ms / TIME_TICKS_MAX)
    return list(range(-(-first_ms // step_ms) * step_ms, last_ms + 1, step_ms))


def time_text(time_ms: int, *, seconds: bool = False) -> str:
    """Return a time of day in UTC; "" of one that no calendar has."""
    return _formatted(time_ms, "%H:%M:%S" if seconds else "%H:%M")


def date_text(time_ms: int) -> str:
    """Return the date of a time in UTC; "" of one that no calendar has."""
    return _formatted(time_ms, "%Y-%m-%d")


def _formatted(time_ms: int, form: str) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return ""


def ago_text(elapsed_ms: float) -> str:
    """Return how long ago something was: ``45 s``, ``12 min``, ``3 h 5 min``, ``4 days``."""
    seconds = max(0, int(elapsed_ms // 1000))
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def _number_text(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 10 else _short(value)


def _short(value: float) -> str:
    """Return a number with three digits that count, without zeros at its end."""
    text = f"{value:.3g}"
    if "e" not in text or abs(value) >= 1e15:
        return text
    return f"{value:,.0f}" if abs(value) >= 1 else f"{value:.6f}".rstrip("0").rstrip(".")
