"""Logs as policies see them, made up."""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.config import Config, TopicConfig
from kqueue.base.settings import Catalog
from kqueue.log.config import SETTINGS
from kqueue.log.policies import LogView, SegmentView

NOW_MS = 1_700_000_000_000
CATALOG = Catalog(SETTINGS)


def settings(**own: str) -> TopicConfig:
    """A topic's settings, its own with underscores for dots."""
    return Config(CATALOG).for_topic({name.replace("_", "."): value for name, value in own.items()})


def view(
    sizes: Sequence[int], ages_ms: Sequence[int] = (), *, high_watermark: int | None = None, **facts: int
) -> LogView:
    """Segments of ten offsets each; `ages_ms`: how long ago their newest record (and their first)
    was, 0 where not given.
    """
    ages = [*ages_ms, *[0] * (len(sizes) - len(ages_ms))]
    last = len(sizes) - 1
    segments = tuple(
        SegmentView(number * 10, number * 10 + 10, size, NOW_MS - age, number == last, NOW_MS - age, NOW_MS - age)
        for number, (size, age) in enumerate(zip(sizes, ages, strict=True))
    )
    high = len(sizes) * 10 if high_watermark is None else high_watermark
    return LogView("t", 0, segments, 0, high, facts.get("stable_offset", high), facts.get("first_dirty", 0))


class Committed:
    """CommittedOffsets out of a table: group -> offset."""

    def __init__(self, **offsets: int) -> None:
        self.offsets = offsets

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self.offsets.get(group)
