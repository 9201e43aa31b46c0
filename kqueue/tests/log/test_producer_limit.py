from __future__ import annotations

import random

import pytest

from kqueue.base.errors import OutOfOrderSequence
from kqueue.base.sliced_task import run_to_end
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.storage import MemoryStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, batch

ID = b"\0\1\2\3" * 4


class Desk:
    """A manager that remembers ten producer ids in all logs together."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self.clock = ManualClock(START_MS)
        self.manager = LogManager([self.storage], clock=self.clock, rng=random.Random(1), producer_ids_max=10)

    def log(self, partition: int = 0) -> Log:
        return self.manager.open("t", partition, ID, LogConfig.of())

    def write(self, producer: int, partition: int = 0, sequence: int = 0, **options: bool) -> bool:
        """Append a batch of one record; returns whether it was a repetition."""
        log = self.log(partition)
        return append(
            log, b"x", producer_id=producer, epoch=0, base_sequence=sequence, time_ms=self.clock.wall_ms(), **options
        ).duplicate

    def known(self, partition: int = 0) -> list[int]:
        return sorted(producer_id for producer_id, _ in self.log(partition).producers.items())


def test_the_longest_idle_are_forgotten_and_live_ones_keep_their_sequence(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    for producer in range(10):
        desk.write(producer)
    desk.write(0, sequence=1)  # it is not the longest idle any more
    for producer in range(100, 105):
        desk.write(producer)
    assert desk.known() == [0, 6, 7, 8, 9, 100, 101, 102, 103, 104]
    assert desk.write(0, sequence=1), "a repetition is recognized"
    with pytest.raises(OutOfOrderSequence):
        desk.write(0, sequence=7)
    assert not desk.write(1, sequence=5), "one that was forgotten goes on with any sequence, as after it has expired"
    lines = [record for record in caplog.records if "kqueue.max.producer.ids" in record.getMessage()]
    assert len(lines) == 1


def test_a_producer_that_writes_all_the_time_outlives_a_flood_of_others() -> None:
    """Its duplicates are recognized, however many producer ids another client makes up."""
    desk = Desk()
    desk.write(1)
    for number in range(1, 200):
        desk.write(1000 + number)
        assert not desk.write(1, sequence=number)
        assert desk.write(1, sequence=number), f"the repetition of {number} is recognized"
    assert len(desk.known()) == 10


def test_producers_that_all_write_again_give_way_too() -> None:
    desk = Desk()
    for number in range(100):
        desk.write(number)
        desk.write(number, sequence=1)
    assert len(desk.known()) == 10
    assert 99 in desk.known()


def test_the_bound_holds_over_all_logs_and_the_largest_gives_way() -> None:
    desk = Desk()
    desk.write(1, partition=1)
    for producer in range(50):
        desk.write(producer)
    assert desk.known(1) == [1]
    assert len(desk.known()) == 9


def test_an_open_transaction_is_never_forgotten() -> None:
    desk = Desk()
    for producer in range(3):
        desk.write(producer, transactional=True)
    for producer in range(100, 150):
        desk.write(producer)
    assert desk.known()[:3] == [0, 1, 2]
    for producer in range(200, 220):
        desk.write(producer, transactional=True)
    assert desk.log().producers.first_open() == 0
    assert set(range(200, 220)) < set(desk.known())


def test_logs_that_are_deleted_or_cut_or_read_again_are_counted_rightly() -> None:
    desk = Desk()
    for producer in range(5):
        desk.write(producer)
        desk.write(producer, partition=1)
    assert desk.manager._producer_limit.count == 10
    desk.log(1).truncate_to(2)
    assert desk.manager._producer_limit.count == 7
    desk.manager.delete("t", 0)
    assert desk.manager._producer_limit.count == 2
    desk.clock.advance(100_000_000)
    assert run_to_end(desk.manager.expire_producers()) == 2
    assert desk.manager._producer_limit.count == 0


def test_producers_loaded_from_disk_count() -> None:
    desk = Desk()
    for producer in range(8):
        desk.write(producer)
    desk.manager.close()
    again = Desk(desk.storage)
    again.write(100, partition=1)
    again.write(101, partition=1)
    again.log()
    assert again.manager._producer_limit.count == 10
    again.write(102, partition=1)
    assert again.known() == list(range(1, 8))


def test_a_producer_takes_little_memory() -> None:
    """Some 400 bytes, where a deque for its last batches alone took 700."""
    import tracemalloc

    from kqueue.log.producer_state import ProducerStateManager
    from kqueue.records.batch import read_header

    headers = [read_header(batch(b"x", producer_id=number, epoch=0, base_sequence=0)) for number in range(1000)]
    producers = ProducerStateManager()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number, header in enumerate(headers):
        producers.update(header, 10**6 + number, START_MS)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used / 1000 < 550
