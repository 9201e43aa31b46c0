"""The ranges of time that charts can show, and how a page's address names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.console.charts.units import ago_text
from kqueue.console.history.cluster_history import ClusterHistory


class TimeRange(NamedTuple):
    """A range. `number`: of a resolution of the history; `is_current`: the page shows it."""

    number: int
    title: str
    is_current: bool


def chosen_range(query: Mapping[str, str]) -> int:
    """Return the index of the range in an address: ``range`` is 0, 1 or 2; 0 where it is none."""
    return int(query["range"]) if query.get("range") in ("0", "1", "2") else 0


def time_ranges(history: ClusterHistory, chosen: int) -> list[TimeRange]:
    """Return all ranges, the shortest first."""
    return [TimeRange(index, ago_text(each.span_ms), index == chosen) for index, each in enumerate(history.resolutions)]
