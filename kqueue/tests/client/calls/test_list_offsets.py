from __future__ import annotations

from kqueue.client.calls.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsets,
)
from kqueue.client.deadline import Deadline
from kqueue.tests.client.calls.caches import ID, T0, cache_of


def test_the_isolation_is_said() -> None:
    for level in (0, 1):
        request = ListOffsets(level, [-1]).request(11, {T0: -1}, cache_of(ID), Deadline(1_000))
        assert request.isolation_level == level


def test_newest_query_decides_over_the_version() -> None:
    for queries, version in (
        ([], 2),
        ([EARLIEST, LATEST, 5], 2),
        ([LATEST, MAX_TIMESTAMP], 7),
        ([EARLIEST_LOCAL, MAX_TIMESTAMP], 8),
        ([LATEST_TIERED], 9),
    ):
        assert ListOffsets(0, queries).versions(cache_of(ID), [])[0] == version
