"""The log against a plain list of records."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.base.errors import OffsetOutOfRange
from kqueue.log.log import Log
from kqueue.records.batch import ABORT, COMMIT, iter_batches, iter_records
from kqueue.testing.clock import ManualClock
from kqueue.testing.storage import FaultyStorage, Remains
from kqueue.tests.log.helpers import START_MS, append, check_log, end_transaction, flush, open_log, read_records

CONFIGS = [
    {"segment_bytes": 400, "index_interval_bytes": 100},
    {"segment_bytes": 3000, "index_interval_bytes": 0},
    {"segment_bytes": 100_000, "index_interval_bytes": 300, "segment_index_bytes": 24},
    {"segment_ms": 500, "index_interval_bytes": 4096},
]


class LogMachine(RuleBasedStateMachine):
    """`batches`: (base offset, [(time, value), ...]) of all that is in the log; `flushed` and `start` as the log should have them."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = FaultyStorage()
        self.clock = ManualClock(START_MS)
        self.batches: list[tuple[int, list[tuple[int, bytes]]]] = []
        self.flushed = 0
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.sequence = 0
        self.producer_epoch = 0
        self.transaction: int | None = None

    @initialize(config=st.sampled_from(CONFIGS))
    def open(self, config: dict[str, int]) -> None:
        self.config = config
        self.log: Log = open_log(self.storage, self.clock, **config)

    def rows(self) -> list[tuple[int, int, bytes]]:
        return [(base + number, *row) for base, rows in self.batches for number, row in enumerate(rows) if base + number >= self.start]

    # --- appending

    @rule(values=st.lists(st.integers(0, 300), min_size=1, max_size=5), time=st.integers(-600, 600))
    def append(self, values: list[int], time: int) -> None:
        rows = [(START_MS + time + number, bytes([number]) * size) for number, size in enumerate(values)]
        appended = append(self.log, *(value for _, value in rows), time_ms=START_MS + time, leader_epoch=self.epoch)
        assert appended.base_offset == self.end
        assert appended.next_offset == self.end + len(rows)
        self._took(rows)

    @rule(count=st.integers(1, 3), transactional=st.booleans())
    def append_idempotent(self, count: int, transactional: bool) -> None:
        if self.transaction is None and transactional:
            self.transaction = self.end
        values = [b"i%d" % number for number in range(count)]
        append(
            self.log, *values, leader_epoch=self.epoch, producer_id=5, epoch=self.producer_epoch, base_sequence=self.sequence,
            transactional=self.transaction is not None,
        )  # fmt: skip
        self.sequence += count
        self._took([(START_MS + number, value) for number, value in enumerate(values)])

    @precondition(lambda self: self.transaction is not None)
    @rule(kind=st.sampled_from([COMMIT, ABORT]))
    def end_transaction(self, kind: int) -> None:
        end_transaction(self.log, kind, 5, leader_epoch=self.epoch, epoch=self.producer_epoch)
        self.transaction = None
        self._took([(START_MS, b"")])

    def _took(self, rows: list[tuple[int, bytes]]) -> None:
        self.batches.append((self.end, rows))
        self.end += len(rows)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        flush(self.log)
        self.flushed = self.end

    # --- reading

    @rule(data=st.data(), max_bytes=st.integers(0, 2000), min_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, min_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        bound = data.draw(st.integers(self.start, self.end))
        fetched = self.log.read(offset, max_bytes, end_offset=bound, min_one_batch=min_one)
        buf = fetched.read()
        found = [record for position, _ in iter_batches(buf) for record in iter_records(buf, position)]
        assert sum(header.size for _, header in iter_batches(buf)) == len(buf) == len(fetched), "whole batches only"
        if not fetched:
            assert fetched.next_offset == offset
            holder = next((base + len(rows) for base, rows in self.batches if base + len(rows) > offset), self.end)
            assert offset >= bound or not min_one or holder > bound
            return
        assert len(buf) <= max_bytes or (min_one and len(list(iter_batches(buf))) == 1)
        assert found[0].offset <= offset <= found[-1].offset
        assert fetched.next_offset == found[-1].offset + 1 <= bound
        rows = {row[0]: row for row in self.rows()}
        for record in found:
            if record.offset >= self.start and record.offset in rows and record.value is not None and record.key is None:
                assert rows[record.offset] == (record.offset, record.timestamp, record.value)

    @rule(data=st.data())
    def read_outside(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([self.start - 1, self.end + 1, -5]))
        with pytest.raises(OffsetOutOfRange):
            self.log.read(offset, 100, end_offset=self.end)

    @rule(time=st.integers(-700, 700), data=st.data())
    def look_up_time(self, time: int, data: st.DataObject) -> None:
        bound = data.draw(st.integers(self.start, self.end))
        expected = next(((when, offset) for offset, when, _ in self.rows() if when >= START_MS + time), None)
        found = self.log.offset_for_time(START_MS + time, bound)
        if expected is None or expected[1] >= bound:
            assert found is None
        else:
            assert found is not None
            assert (found.timestamp, found.offset) == expected

    @rule()
    def look_up_latest_time(self) -> None:
        found = self.log.latest_timestamp()
        rows = [row for base, batch in self.batches for number, row in enumerate(batch) if base + number >= self.log.first_base]
        if found is None:
            assert not self.rows() or self.start > self.log.first_base
        elif self.start == 0:
            assert found.timestamp == max(when for when, _ in rows)

    # --- cutting

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(max(self.start, self.end - 12), self.end))
        self.log.truncate_to(offset)
        self._lose(offset)

    def _lose(self, offset: int) -> None:
        """The list without what lies at `offset` or later; a batch that holds it goes whole."""
        self.batches = [(base, rows) for base, rows in self.batches if base + len(rows) <= offset]
        self.end = self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else 0
        self.flushed = min(self.flushed, self.end)
        # producers go on as the log has them
        producer = self.log.producers.by_id.get(5)
        self.producer_epoch += 1
        self.sequence = 0
        self.transaction = producer.transaction_offset if producer is not None and producer.transaction_offset >= 0 else None

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([self.start, *(base for base, _ in self.batches if self.start <= base <= self.flushed)]))
        self.log.advance_start(offset)
        self.start = max(self.start, offset)

    # --- stopping and starting

    @rule()
    def stop_cleanly(self) -> None:
        self.log.close()
        self.flushed = self.end
        self.storage.steps.clear()
        self._open(clean=True)
        assert not self.storage.steps, "nothing to mend after a clean stop"

    @rule()
    def crash(self) -> None:
        """Of the process alone."""
        self._open(clean=False)
        self.flushed = self.end

    @rule(remains=st.sampled_from(Remains), seed=st.integers(0, 1000))
    def cut_power(self, remains: Remains, seed: int) -> None:
        self.storage = self.storage.after_cut(remains, random.Random(seed))
        flushed, before = self.flushed, self.end
        if not self.storage.exists("t-0"):
            assert flushed == 0
        self._open(clean=False, recovery_point=random.Random(seed).randint(0, flushed))
        assert flushed <= self.log.end_offset <= before
        lost = self.log.end_offset
        self._lose(lost)
        assert self.end == lost
        self.flushed = self.end

    def _open(self, *, clean: bool, recovery_point: int | None = None) -> None:
        point = self.flushed if recovery_point is None else recovery_point
        self.log = open_log(self.storage, self.clock, clean=clean, recovery_point=point, start_offset=self.start, **self.config)

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.flushed_offset, self.log.end_offset) == (self.start, self.flushed, self.end)
            assert self.log.last_stable_offset == (self.end if self.transaction is None else max(self.transaction, self.start))

    def teardown(self) -> None:
        if hasattr(self, "log"):
            check_log(self.log)
            assert [record.offset for record in read_records(self.log, 500)] == [row[0] for row in self.rows()]


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
