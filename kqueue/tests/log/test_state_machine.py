"""The log against a plain list of records: S4.1, S4.2, S5.2, S5.3."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.base.errors import OffsetOutOfRange
from kqueue.base.sliced_task import run_to_end
from kqueue.log.compaction import swap_files
from kqueue.log.compaction.compaction_task import CompactionTask
from kqueue.log.compaction.model import SegmentSource
from kqueue.log.log import Log
from kqueue.log.scanner.batch_scanner import scan
from kqueue.records.batch import ABORT, COMMIT, BatchHeader, Record, iter_batches, iter_records
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.compaction.helpers import config as compaction_config
from kqueue.tests.log.helpers import (
    START_MS,
    append,
    check_log,
    end_transaction,
    flush,
    keep_producers,
    open_log,
    read_records,
    stable_end,
)
from kqueue.tests.thorough import examples

CONFIGS = [
    {"segment_bytes": 400, "index_interval_bytes": 100},
    {"segment_bytes": 3000, "index_interval_bytes": 0},
    {"segment_bytes": 100_000, "index_interval_bytes": 300, "segment_index_bytes": 24},
    {"segment_ms": 500, "index_interval_bytes": 4096},
]


class Rows(NamedTuple):
    """A batch: its offsets, `end` exclusive, and (offset, time, value) of the records that are left
    in it.
    """

    base: int
    end: int
    rows: list[tuple[int, int, bytes]]


class KeepSome:
    """What a compaction is told to keep."""

    def __init__(self, divisor: int) -> None:
        self.divisor = divisor

    def __call__(self, record: Record) -> bool:
        return record.offset % self.divisor != 0


class LogMachine(RuleBasedStateMachine):
    """`batches`: all that is in the log; `flushed` and `start` as the log should have them.

    `cleaned`: all below was in segments that were compacted, or dropped: a log is never truncated
    to less. `with_transactions`: which compaction treats in ways of its own (see its own tests), so
    there is either the one or the other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.storage = FaultyStorage()
        self.clock = ManualClock(START_MS)
        self.batches: list[Rows] = []
        self.cleaned = 0
        self.flushed = 0
        self.start = 0
        self.end = 0
        self.epoch = 0
        self.sequence = 0
        self.producer_epoch = 0
        self.transaction: int | None = None

    @initialize(config=st.sampled_from(CONFIGS), with_transactions=st.booleans())
    def open(self, config: dict[str, int], with_transactions: bool) -> None:
        self.config: dict[str, Any] = {"cleanup_policy": "delete" if with_transactions else "compact", **config}
        self.with_transactions = with_transactions
        config = self.config
        self.log: Log = open_log(self.storage, self.clock, **config)

    def rows(self) -> list[tuple[int, int, bytes]]:
        return [row for batch in self.batches for row in batch.rows if row[0] >= self.start]

    # --- appending

    @rule(values=st.lists(st.integers(0, 300), min_size=1, max_size=5), time=st.integers(-600, 600))
    def append(self, values: list[int], time: int) -> None:
        rows = [(START_MS + time + number, bytes([number]) * size) for number, size in enumerate(values)]
        appended = append(self.log, *(value for _, value in rows), time_ms=START_MS + time, leader_epoch=self.epoch)
        assert appended.base_offset == self.end
        assert appended.next_offset == self.end + len(rows)
        self._took(rows)

    @rule(sizes=st.lists(st.integers(0, 300), min_size=3, max_size=12), time=st.integers(-600, 600))
    def append_several(self, sizes: list[int], time: int) -> None:
        for number, size in enumerate(sizes):
            self.append([size], time + 10 * number)

    @rule(count=st.integers(1, 3), transactional=st.booleans())
    def append_idempotent(self, count: int, transactional: bool) -> None:
        if self.transaction is None and transactional and self.with_transactions:
            self.transaction = self.end
        values = [b"i%d" % number for number in range(count)]
        append(
            self.log,
            *values,
            leader_epoch=self.epoch,
            producer_id=5,
            epoch=self.producer_epoch,
            base_sequence=self.sequence,
            transactional=self.transaction is not None,
        )
        self.sequence += count
        self._took([(START_MS + number, value) for number, value in enumerate(values)])

    @precondition(lambda self: self.transaction is not None)
    @rule(kind=st.sampled_from([COMMIT, ABORT]))
    def end_transaction(self, kind: int) -> None:
        end_transaction(self.log, kind, 5, leader_epoch=self.epoch, epoch=self.producer_epoch)
        self.transaction = None
        self._took([(START_MS, b"")])

    def _took(self, rows: list[tuple[int, bytes]]) -> None:
        base, self.end = self.end, self.end + len(rows)
        self.batches.append(Rows(base, self.end, [(base + number, *row) for number, row in enumerate(rows)]))

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
        headers = [header for _, header in iter_batches(buf)]
        records_read = [record for position, _ in iter_batches(buf) for record in iter_records(buf, position)]
        assert sum(header.size for _, header in iter_batches(buf)) == len(buf) == len(fetched), "whole batches only"
        if not fetched:
            assert fetched.next_offset == offset
            holder = next((batch.end for batch in self.batches if batch.end > offset), self.end)
            assert offset >= bound or not min_one or holder > bound
            return
        assert len(buf) <= max_bytes or (min_one and len(list(iter_batches(buf))) == 1)
        assert headers[0].last_offset >= offset
        assert headers[0].base_offset <= offset or all(
            batch.end <= offset for batch in self.batches if batch.base < headers[0].base_offset
        )
        assert headers[-1].next_offset <= fetched.next_offset <= bound
        after = [batch.base for batch in self.batches if batch.base >= headers[-1].next_offset]
        assert fetched.next_offset <= min(after, default=self.end)
        rows = {row[0]: row for row in self.rows()}
        for record in records_read:
            if (
                record.offset >= self.start
                and record.offset in rows
                and record.value is not None
                and record.key is None
            ):
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
        located = run_to_end(self.log.offset_for_time(START_MS + time, bound))
        if expected is None or expected[1] >= bound:
            assert located is None
        else:
            assert located is not None
            assert (located.timestamp, located.offset) == expected

    @rule(data=st.data())
    def look_up_latest_time(self, data: st.DataObject) -> None:
        bound = data.draw(st.integers(self.start, self.end))
        located = run_to_end(self.log.latest_timestamp(bound))
        latest = max(((when, -offset) for offset, when, _ in self.rows() if offset < bound), default=None)
        assert (None if located is None else (located.timestamp, -located.offset)) == latest

    # --- cutting

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        # not into a gap: where such a log ends, no file can tell
        least = max(self.start, self.cleaned, self.end - 12)
        inside = [offset for batch in self.batches for offset in range(batch.base, batch.end) if offset >= least]
        offset = data.draw(st.sampled_from([*inside, self.end]))
        self.log.truncate_to(offset)
        self._lose(offset)

    def _lose(self, offset: int) -> None:
        """The list without what lies at `offset` or later; a batch that holds it goes whole."""
        holder = next((batch for batch in self.batches if batch.base < offset < batch.end), None)
        self.batches = [batch for batch in self.batches if batch.end <= offset]
        self.end = min(self.end, offset if holder is None else holder.base)
        self.flushed = min(self.flushed, self.end)
        # producers go on as the log has them
        producer = self.log.producers.by_id.get(5)
        self.producer_epoch += 1
        self.sequence = 0
        self.transaction = (
            producer.transaction_offset if producer is not None and producer.transaction_offset >= 0 else None
        )

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        offset = data.draw(
            st.sampled_from([self.start, *(one.base for one in self.batches if self.start <= one.base <= self.flushed)])
        )
        self.log.advance_start(offset)
        self.start = max(self.start, offset)

    # --- cleaning

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        """S5.1: whole segments, never the active one."""
        offset = data.draw(st.integers(self.start, self.flushed))
        bases = [info.base for info in self.log.segments]
        keep_producers(self.log, offset)
        dropped = self.log.delete_before(offset, high_watermark=self.flushed, why="test")
        first = max((base for base in bases if base <= offset), default=bases[0])
        assert self.log.segments.base_offset == first
        assert (dropped is not None) == (first > bases[0])
        self.start = max(self.start, first)
        self.cleaned = max(self.cleaned, first)
        self.batches = [batch for batch in self.batches if batch.base >= first]
        if dropped is not None:
            dropped.rename()
            dropped.remove()

    @precondition(lambda self: not self.with_transactions)
    @rule(divisor=st.integers(1, 4), segment_bytes=st.sampled_from([300, 5000]))
    def compact(self, divisor: int, segment_bytes: int) -> None:
        """S5.2: offsets survive with gaps."""
        segments = self.log.segments.sealed_below(self.flushed)
        views = self.log.segment_views()[: len(segments)]
        if not segments:
            return
        upto = views[-1].end_offset
        keep = KeepSome(divisor)
        task = CompactionTask(
            opener=lambda: self.storage,
            folder="t-0",
            sources=tuple(SegmentSource(view.base_offset, view.end_offset, view.size, False) for view in views),
            first_dirty=0,
            config=compaction_config(
                segment_bytes=segment_bytes, index_interval_bytes=self.log.config.index_interval_bytes
            ),
            start_offset=self.start,
            now_ms=self.clock.wall_ms(),
            last_batches={
                id: producer.batches[-1].last_offset for id, producer in self.log.producers.items() if producer.batches
            },
            keep=keep,
        )
        for group in task().groups:
            swap_files.commit(self.storage, "t-0", group)
            paths = self.log.replace([segment for segment in segments if segment.base in group.sources], group)
            assert paths is not None
            self.storage.sync_folder("t-0")
            for path in paths:
                self.storage.remove(path)
        self.cleaned = max(self.cleaned, upto)
        rows = [row for row in self.rows() if row[0] >= upto or row[0] % divisor]
        self._take_batches(rows)
        assert self.rows() == rows

    def _take_batches(self, rows: list[tuple[int, int, bytes]]) -> None:
        """The batches as the log has them, with those of `rows` that lie in them."""
        self.batches = [
            Rows(
                unit.base_offset,
                unit.next_offset,
                [row for row in rows if unit.base_offset <= row[0] < unit.next_offset],
            )
            for segment in self.log.segments
            for _, unit, *_ in scan(segment.log, 0, segment.size)
            if isinstance(unit, BatchHeader)
        ]

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
        if not self.with_transactions:
            # where compaction leaves gaps, one that the power cut left among what was not flushed
            # looks no different
            rows = self.rows()
            self._take_batches(rows)
            assert [row for row in rows if row[0] < flushed] == [row for row in self.rows() if row[0] < flushed]
        self._lose(lost)
        assert self.end == lost
        self.flushed = self.end

    def _open(self, *, clean: bool, recovery_point: int | None = None) -> None:
        point = self.flushed if recovery_point is None else recovery_point
        self.log = open_log(
            self.storage, self.clock, clean=clean, recovery_point=point, start_offset=self.start, **self.config
        )

    @invariant()
    def indexes_lead_nobody_astray(self) -> None:
        if hasattr(self, "log"):
            assert not [segment for segment in self.log.segments if segment.index_mismatch]
            assert self.log.damage == []

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.flushed_offset, self.log.end_offset) == (
                self.start,
                self.flushed,
                self.end,
            )
            assert stable_end(self.log) == (self.end if self.transaction is None else max(self.transaction, self.start))

    def teardown(self) -> None:
        if hasattr(self, "log"):
            check_log(self.log, forgotten=self.cleaned > 0)
            assert [record.offset for record in read_records(self.log, 500)] == [row[0] for row in self.rows()]


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=examples(250),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
