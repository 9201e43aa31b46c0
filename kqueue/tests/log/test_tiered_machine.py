"""A log with a remote tier against one that never had any: the same records, each in one place."""

from __future__ import annotations

import dataclasses
import random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.base.errors import OffsetMovedToTieredStorage
from kqueue.log.config import LogConfig
from kqueue.log.formats.checkpoints import LOG_STARTS
from kqueue.log.formats.filenames import SNAPSHOT, file_name
from kqueue.log.log import Log
from kqueue.log.log_cut import RestartState
from kqueue.log.manager import LogManager
from kqueue.log.producer_state import ProducerStateManager
from kqueue.records.batch import ABORT, COMMIT, iter_batches
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    check_log,
    end_transaction,
    flush,
    keep_producers,
    note_high_watermarks,
    read_checked,
    run_through,
)
from kqueue.tests.log.test_follower_log import KEY, TOPIC_ID
from kqueue.tests.log.test_log_cut import restart_with
from kqueue.tests.thorough import examples

PLAIN = LogConfig.of(segment_bytes=500, index_interval_bytes=100)
TIERED = dataclasses.replace(PLAIN, tiered=True)
PRODUCER = 5


class Copy(NamedTuple):
    """A segment in the model of a tier. snapshot: of the producers at its end."""

    base: int
    end: int
    data: bytes
    epochs: list[tuple[int, int]]
    snapshot: bytes


def batches_of(data: bytes, offset: int) -> dict[int, bytes]:
    """Return the batches that reach `offset` or lie beyond, by their last offset."""
    headers = list(iter_batches(data))
    ends = [*(position for position, _ in headers[1:]), len(data)]
    return {
        header.last_offset: bytes(data[position:end])
        for (position, header), end in zip(headers, ends, strict=True)
        if header.last_offset >= offset
    }


def local_batches(log: Log) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = log.local_start_offset
    while fetched := read_checked(log, offset, 1 << 20, log.end_offset):
        found.update(batches_of(fetched.read(), offset))
        offset = fetched.next_offset
    return found


def epochs_of(log: Log) -> list[tuple[int, int]]:
    """Return the epochs that have records: one that begins at the end is gone after a stop."""
    return [row for row in log.epochs.entries() if row[1] < log.end_offset]


def essence(producers: ProducerStateManager) -> dict[int, tuple[int, int, int]]:
    """What of producers decides: epoch, last sequence, open transaction."""
    return {
        producer_id: (one.epoch, one.batches[-1].last_sequence if one.batches else -1, one.transaction_offset)
        for producer_id, one in producers.items()
    }


class TieredLogMachine(RuleBasedStateMachine):
    """`log` with `tier`, and `plain`. `start`: the log start that both have to have."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = FaultyStorage()
        self.plain = Log.open(MemoryStorage(), "plain-0", PLAIN, ManualClock(START_MS))
        self.tier: list[Copy] = []
        self.start = 0
        self.epoch = 0
        self.sequence = 0
        self.producer_epoch = 0
        self.is_open = False
        self.seed = random.Random(7)

    @initialize()
    def first(self) -> None:
        self.open(self.storage)

    def open(self, storage: Storage) -> None:
        """Open the log, and tell it what a leader would."""
        self.manager = LogManager([storage], clock=ManualClock(START_MS), rng=random.Random(5))
        self.log = self.manager.open(*KEY, TOPIC_ID, TIERED)
        assert self.log.damage == []
        self.log.tiered_end = self.tier_end
        if self.tier:
            epochs = list(dict.fromkeys(row for copy in self.tier for row in copy.epochs))
            joined: dict[int, int] = {}
            for epoch, start in epochs:
                joined.setdefault(epoch, start)
            self.log.adopt_tier(self.start, list(joined.items()))
        self.log.advance_start(min(self.start, self.log.end_offset))

    @property
    def tier_end(self) -> int:
        return self.tier[-1].end if self.tier else 0

    # --- records

    @rule(sizes=st.lists(st.integers(0, 200), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        for log in (self.log, self.plain):
            append(log, *(b"%d" % size * (size // 3) for size in sizes), leader_epoch=self.epoch)

    @rule(count=st.integers(1, 3), transactional=st.booleans())
    def append_idempotent(self, count: int, transactional: bool) -> None:
        self.is_open |= transactional
        for log in (self.log, self.plain):
            append(
                log,
                *[b"i"] * count,
                leader_epoch=self.epoch,
                producer_id=PRODUCER,
                epoch=self.producer_epoch,
                base_sequence=self.sequence,
                transactional=self.is_open,
            )
        self.sequence += count

    @precondition(lambda self: self.is_open)
    @rule(kind=st.sampled_from([COMMIT, ABORT]))
    def end_transaction(self, kind: int) -> None:
        for log in (self.log, self.plain):
            end_transaction(log, kind, PRODUCER, leader_epoch=self.epoch, epoch=self.producer_epoch)
        self.is_open = False

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        flush(self.log)

    @rule()
    def write_checkpoints(self) -> None:
        run_through(self.manager.checkpoints.write_all())

    def save_start(self) -> None:
        saved: list[BaseException | None] = []
        self.manager.checkpoints.save_log_starts(KEY, saved.append)
        assert saved == [None]

    # --- the tier

    @rule()
    def copy(self) -> None:
        """Copy the oldest sealed segment that the tier lacks."""
        log = self.log
        flush(log)
        for segment in log.segments.sealed_below(log.end_offset):
            if segment.base == max(self.tier_end, log.segments.base_offset):
                path = f"{log.folder}/{file_name(self._end_of(segment.base), SNAPSHOT)}"
                snapshot = log.storage.read(path) if log.storage.exists(path) else b""
                end = self._end_of(segment.base)
                epochs = [row for row in log.epochs.entries() if row[1] < end]
                data = segment.log.read_at(0, segment.size)
                self.tier.append(Copy(segment.base, end, data, epochs, snapshot))
                log.tiered_end = end
                return

    def _end_of(self, base: int) -> int:
        bases = [segment.base for segment in self.log.segments]
        return bases[bases.index(base) + 1]

    @rule(share=st.floats(0, 1), steps=st.integers(0, 2))
    def delete_local(self, share: float, steps: int) -> None:
        log = self.log
        flush(log)
        offset = int(log.end_offset * share)
        self.save_start()
        keep_producers(log, min(offset, log.tiered_end))
        deleted = log.delete_local(offset, high_watermark=log.end_offset, why="old")
        for step in (deleted.rename, deleted.remove)[:steps] if deleted is not None else ():
            step()

    # --- the log start

    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        flush(self.log)
        self._start_at(int(self.log.end_offset * share))

    def _start_at(self, offset: int) -> None:
        self.start = max(self.start, offset)
        for log in (self.log, self.plain):
            log.advance_start(self.start)

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        log = self.log
        flush(log)
        offset = int(log.end_offset * share)
        keep_producers(log, offset)
        start = log.start_after_deletion(offset)
        if start is not None:
            log.announce_start(start)
            self.save_start()
            deleted = log.delete_before(start, high_watermark=log.end_offset, why="old")
            assert deleted is not None
            deleted.rename()
            self._start_at(start)

    # --- cuts

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """Truncate what the tier has no copy of."""
        least = max(self.tier_end, self.log.local_start_offset)
        ends = [last + 1 for last in local_batches(self.plain) if last + 1 >= least]
        if ends:
            offset = ends[int((len(ends) - 1) * share)]
            self._forget_from(offset)
            self.log.truncate_to(offset)

    def _forget_from(self, offset: int) -> None:
        self.plain.truncate_to(max(offset, self.plain.start_offset))
        producer = self.plain.producers.by_id.get(PRODUCER)
        self.is_open = producer is not None and producer.transaction_offset >= 0
        self.sequence = producer.batches[-1].last_sequence + 1 if producer is not None and producer.batches else 0
        if producer is None:
            self.producer_epoch += 1

    @precondition(lambda self: bool(self.tier) and self.start <= self.tier_end)
    @rule()
    def restart(self) -> None:
        """Begin with an empty disk where the tier ends."""
        last = self.tier[-1]
        self._forget_from(last.end)
        restart_with(self.manager, self.log, last.end, RestartState(self.start, last.epochs, last.snapshot))

    # --- stops

    @rule(loses_checkpoint=st.booleans())
    def stop(self, loses_checkpoint: bool) -> None:
        note_high_watermarks(self.manager, {KEY: self.log.end_offset}).close()
        if loses_checkpoint and self.storage.exists(LOG_STARTS):
            self.storage.remove(LOG_STARTS)
        self.open(self.storage)

    @rule(remains=st.sampled_from(Remains))
    def cut_power(self, remains: Remains) -> None:
        flushed = self.log.flushed_offset
        self.storage = self.storage.after_cut(remains, self.seed)
        self.open(self.storage)
        assert self.log.end_offset >= flushed
        if self.log.end_offset < self.plain.end_offset:
            self._forget_from(self.log.end_offset)

    # --- what holds

    @invariant()
    def every_record_is_in_one_place(self) -> None:
        log, plain = self.log, self.plain
        assert (log.start_offset, log.end_offset) == (plain.start_offset, plain.end_offset)
        assert log.start_offset <= log.local_start_offset <= max(self.tier_end, log.start_offset)
        found: dict[int, bytes] = {}
        for copy in self.tier:
            batches = batches_of(copy.data, log.start_offset)
            found.update((last, data) for last, data in batches.items() if last < log.local_start_offset)
        found.update(local_batches(log))
        assert found == local_batches(plain)
        if log.start_offset < log.local_start_offset:
            for offset in (log.start_offset, log.local_start_offset - 1):
                with pytest.raises(OffsetMovedToTieredStorage):
                    log.read(offset, 1000, end_offset=log.end_offset)

    @invariant()
    def its_state_is_that_of_the_whole_log(self) -> None:
        assert epochs_of(self.log) == epochs_of(self.plain)
        assert essence(self.log.producers) == essence(self.plain.producers)
        check_log(self.log, forgotten=True)


TestTieredLog = TieredLogMachine.TestCase
TestTieredLog.settings = settings(
    max_examples=examples(300), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
