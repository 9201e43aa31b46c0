"""Series of bounded size: values by key over time, in steps that are coarser for older values.

A ring per resolution holds one float of 32 bits per slot. The slot of a time is its number of
steps since 1970, and its place in the ring is that modulo the ring's length. So all series of a
family share their positions, and a series is nothing but its values. A coarser slot is made of the
finer ones when it ends; one that has not ended is made of them when it is read.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
NAN = math.nan
VALUE_MAX = 1e38
"""Of a float of 32 bits; a larger value is not recorded."""
DECAY = 0.98
"""What is left of a series' activity after each sample."""


class Resolution(NamedTuple):
    """Slots of one length. `step_ms`: of a slot; `slots`: their number."""

    step_ms: int
    slots: int

    @property
    def span_ms(self) -> int:
        """The time that the slots cover."""
        return self.step_ms * self.slots


class Point(NamedTuple):
    """A value of a series. `time_ms`: when its slot begins, since 1970; `value`: None: a gap."""

    time_ms: int
    value: float | None


def resolutions(interval_ms: int) -> tuple[Resolution, ...]:
    """Return the resolutions for samples at this interval, the finest first.

    At 10 s: 20 minutes in steps of 10 s, 2 hours in minutes, and 12 hours in steps of 5 minutes.
    """
    return Resolution(interval_ms, 120), Resolution(interval_ms * 6, 120), Resolution(interval_ms * 30, 144)


def mean(values: Iterable[float]) -> float:
    """Return the mean of those that are known; NaN: none is."""
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else NAN


def highest(values: Iterable[float]) -> float:
    """Return the highest of those that are known; NaN: none is."""
    return max((value for value in values if value == value), default=NAN)


class SeriesFamily(Generic[K]):
    """The series of one kind, by key.

    Args:
        interval_ms: between samples. series_max: beyond it the busiest stay.
        combine: `mean` or `highest`, makes a coarser value of finer ones.
    Thread: one at a time; `History` has the lock.
    """

    def __init__(self, interval_ms: int, series_max: int, combine: Callable[[Iterable[float]], float] = mean) -> None:
        self.resolutions = resolutions(interval_ms)
        self._series_max = series_max
        self._combine = combine
        self._offsets = [0, self.resolutions[0].slots, self.resolutions[0].slots + self.resolutions[1].slots]
        self._blank = array("f", [NAN]) * sum(each.slots for each in self.resolutions)
        self._slots: list[int] | None = None  # the newest slot of each resolution; None: nothing is recorded
        self._began_ms = 0
        self._values: dict[K, array[float]] = {}
        self._activity: dict[K, float] = {}
        self._seen_ms: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def keys(self) -> list[K]:
        """Return the keys, the busiest first."""
        return sorted(self._values, key=self._activity.__getitem__, reverse=True)

    def record(self, now_ms: int, values: Mapping[K, float | None]) -> None:
        """Record a sample. A key that is missing or None has a gap.

        Args:
            now_ms: since 1970; one before the last sample is taken for the same.
        """
        now_ms = self._advance(now_ms)
        known = {key: value for key, value in values.items() if value is not None and abs(value) < VALUE_MAX}
        for key in self._activity:
            self._activity[key] *= DECAY
        for key, value in known.items():
            activity = abs(value)
            self._activity[key] = max(self._activity.get(key, 0.0), activity)
            self._seen_ms[key] = now_ms
        self._drop(now_ms)
        assert self._slots is not None
        place = self._slots[0] % self.resolutions[0].slots
        for key, value in known.items():
            if key in self._activity:
                series = self._values.get(key)
                if series is None:
                    series = self._values[key] = self._blank[:]
                series[place] = value

    def points(self, key: K, resolution: int = 0) -> list[Point]:
        """Return the values of a series, from the family's first sample on; empty: there is none.

        Args:
            resolution: the index of one of `resolutions`.
        """
        series = self._values.get(key)
        if series is None or self._slots is None:
            return []
        each = self.resolutions[resolution]
        newest = self._slots[resolution]
        points = []
        for slot in range(max(newest - each.slots + 1, self._began_ms // each.step_ms), newest + 1):
            if slot == newest and resolution:
                value = self._combined(series, resolution, slot)
            else:
                value = series[self._offsets[resolution] + slot % each.slots]
            points.append(Point(slot * each.step_ms, value if value == value else None))
        return points

    def _advance(self, now_ms: int) -> int:
        """End the slots before this time, and clear those that nothing was recorded in."""
        if self._slots is None:
            self._slots = [now_ms // each.step_ms for each in self.resolutions]
            self._began_ms = now_ms
            return now_ms
        now_ms = max(now_ms, self._slots[0] * self.resolutions[0].step_ms)
        slots = [now_ms // each.step_ms for each in self.resolutions]
        for index in range(1, len(slots)):  # the finer first: the next coarser ones are made of them
            if slots[index] != self._slots[index]:
                ended = self._slots[index]
                place = self._offsets[index] + ended % self.resolutions[index].slots
                for series in self._values.values():
                    series[place] = self._combined(series, index, ended)
        for index, each in enumerate(self.resolutions):
            skipped = range(max(self._slots[index] + 1, slots[index] - each.slots + 1), slots[index] + 1)
            places = [self._offsets[index] + slot % each.slots for slot in skipped]
            for series in self._values.values():
                for place in places:
                    series[place] = NAN
        self._slots = slots
        return now_ms

    def _combined(self, series: array[float], index: int, slot: int) -> float:
        """Return the value of a slot, made of those of the next finer resolution."""
        finer = self.resolutions[index - 1]
        assert self._slots is not None
        count = self.resolutions[index].step_ms // finer.step_ms
        newest = self._slots[index - 1]
        offset = self._offsets[index - 1]
        first = slot * count
        values = []
        for each in range(first, min(first + count, newest + 1)):
            if each == newest and index > 1:
                values.append(self._combined(series, index - 1, each))
            else:
                values.append(series[offset + each % finer.slots])
        return self._combine(values)

    def _drop(self, now_ms: int) -> None:
        """Drop series without a value in any slot, and the least busy ones beyond the limit."""
        oldest_ms = now_ms - self.resolutions[-1].span_ms
        dropped = [key for key, seen_ms in self._seen_ms.items() if seen_ms < oldest_ms]
        too_many = len(self._seen_ms) - len(dropped) - self._series_max
        if too_many > 0:
            # of equally busy ones those that are there stay, so that their history is of use
            left = self._seen_ms.keys() - set(dropped)
            dropped += sorted(left, key=lambda key: (self._activity[key], key in self._values))[:too_many]
        for key in dropped:
            del self._seen_ms[key], self._activity[key]
            self._values.pop(key, None)
