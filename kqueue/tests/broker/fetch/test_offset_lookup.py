"""Offsets by time and by special timestamp; the tests of ListOffsets show the rest."""

from __future__ import annotations

import pytest

from kqueue.base.errors import UnsupportedVersion
from kqueue.base.sliced_task import run_to_end
from kqueue.broker.fetch.offset_lookup import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    GREATEST_TIME,
    LATEST,
    LATEST_TIERED,
    ListedOffset,
    find_offset,
    segment_starts,
)
from kqueue.broker.replicas.partition import Partition
from kqueue.records.batch import read_header
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import NOW_MS, batch

EPOCH = 3


@pytest.fixture
def partition() -> Partition:
    """Offsets 0 and 1 in one segment, 2 and 3 in the next; the greatest time is that of 1."""
    sim = Simulation({"kqueue.storage": "memory"})
    partition = sim.topic("t").partition(0)
    sim.broker.replicas.host.sole_replica.begin_epoch(EPOCH)
    append(partition, batch(b"a", time_ms=NOW_MS))
    append(partition, batch(b"b", time_ms=NOW_MS + 50))
    partition.roll()
    append(partition, batch(b"c", b"d", time_ms=NOW_MS + 20))
    sim.broker.replicas.host.sole_replica.begin_epoch(EPOCH + 1)
    return partition


def append(partition: Partition, records: bytes) -> None:
    partition.append(memoryview(bytearray(records)), read_header(records))


def find(partition: Partition, timestamp: int, end_offset: int = 4) -> ListedOffset:
    return run_to_end(find_offset(partition, timestamp, end_offset))


def test_a_time_finds_the_first_record_at_or_after_it_below_the_end(partition: Partition) -> None:
    assert find(partition, NOW_MS) == (NOW_MS, 0, EPOCH)
    assert find(partition, NOW_MS + 1) == (NOW_MS + 50, 1, EPOCH)
    partition.log.advance_start(2)
    assert find(partition, NOW_MS + 21) == (NOW_MS + 21, 3, EPOCH)
    assert find(partition, NOW_MS + 21, end_offset=3) == ListedOffset(-1, -1, -1)
    assert find(partition, NOW_MS + 22) == ListedOffset(-1, -1, -1)


def test_special_timestamps_find_the_ends_of_the_log_and_nothing_in_a_remote_tier(partition: Partition) -> None:
    partition.log.advance_start(1)
    assert find(partition, LATEST, end_offset=3) == (-1, 3, EPOCH + 1)
    assert find(partition, EARLIEST) == find(partition, EARLIEST_LOCAL) == (-1, 1, EPOCH)
    assert find(partition, GREATEST_TIME) == (NOW_MS + 50, 1, EPOCH)
    assert find(partition, GREATEST_TIME, end_offset=1) == (-1, -1, -1)
    assert find(partition, LATEST_TIERED) == find(partition, EARLIEST_PENDING_UPLOAD) == (-1, -1, -1)
    partition.log.advance_start(4)
    assert find(partition, EARLIEST) == (-1, 4, EPOCH + 1), "the first record will have the current epoch"


def test_segment_starts_are_newest_first_up_to_a_time_and_a_count(partition: Partition) -> None:
    now_ms = NOW_MS + 100
    partition.log.advance_start(1)
    assert segment_starts(partition, LATEST, 9, now_ms) == [4, 2, 1]
    assert segment_starts(partition, LATEST, 2, now_ms) == [4, 2]
    assert segment_starts(partition, LATEST, -1, now_ms) == []
    assert segment_starts(partition, EARLIEST, 9, now_ms) == [1]
    assert segment_starts(partition, NOW_MS + 49, 9, now_ms) == [2]
    assert segment_starts(partition, NOW_MS + 50, 9, now_ms) == [2, 1]
    assert segment_starts(partition, now_ms, 9, now_ms) == [4, 2, 1]
    with pytest.raises(UnsupportedVersion, match="-3"):
        segment_starts(partition, GREATEST_TIME, 9, now_ms)
