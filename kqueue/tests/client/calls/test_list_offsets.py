from __future__ import annotations

from kqueue.client.calls.list_offsets import ListOffsets
from kqueue.client.deadline import Deadline
from kqueue.tests.client.calls.caches import ID, T0, cache_of


def test_the_isolation_is_said() -> None:
    for level in (0, 1):
        request = ListOffsets(level, by_greatest_time=False).request(11, {T0: -1}, cache_of(ID), Deadline(1_000))
        assert request.isolation_level == level
