"""A partition of a whole broker against a plain list of what was appended: appending, rolling,
retention, compaction, deletion of records, work before a drop that fails by chance, clean stops,
crashes, power cuts in the middle of anything, and time that goes on or back.

S5.1, S5.2: no record is deleted that may stay or kept that must go, none appears that was not
appended, and none is deleted before its pre-delete task, where a policy has one.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kqueue.base.config import TopicConfig
from kqueue.base.errors import OffsetOutOfRange, PolicyViolation
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.upkeep import pre_delete
from kqueue.log.policies import POLICIES, CommittedOffsets, Drop, LogView
from kqueue.log.policies.delete import DeletePolicy
from kqueue.log.sealed_segments import SealedSegments
from kqueue.records.batch import Record, check_crc, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests.thorough import corners, examples

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
RETENTION_MS = HOUR_MS
RETENTION_BYTES = 1500
BROKER = {
    "log.retention.check.interval.ms": 5 * MINUTE_MS,
    "log.cleaner.backoff.ms": MINUTE_MS,
    "log.cleaner.dedupe.buffer.size": 1024,
    "log.cleaner.io.buffer.load.factor": 0.15,  # six keys at a time: cleaning goes in parts
    "log.cleaner.io.buffer.size": 1024,
}
SMALL = {"segment_bytes": "500", "index_interval_bytes": "100", "file_delete_delay_ms": str(2 * MINUTE_MS)}
COMPACTION = {"min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": str(30 * MINUTE_MS)}
TOPICS = {
    "delete by age": {"cleanup_policy": "delete", "retention_ms": str(RETENTION_MS)},
    "delete by size": {"cleanup_policy": "delete", "retention_ms": "-1", "retention_bytes": str(RETENTION_BYTES)},
    "compact": {"cleanup_policy": "compact", **COMPACTION},
    "both": {"cleanup_policy": "compact,delete", "retention_ms": str(RETENTION_MS), **COMPACTION},
    "first": {"cleanup_policy": "first", "retention_ms": str(RETENTION_MS)},
    "first, compacted": {"cleanup_policy": "compact,first", "retention_ms": str(RETENTION_MS), **COMPACTION},
}
KEYS = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"]
PAIRS = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 90))), min_size=1, max_size=6)


class Row(NamedTuple):
    """A record as it was appended."""

    time: int
    key: bytes
    value: bytes | None


class Keeper:
    """A policy that drops by age, after it has put records into `kept`: all of them, or some and
    then it fails, as `luck` has it.

    `done`: what it was given when it returned.
    """

    name = "first"

    def __init__(self) -> None:
        self.kept: dict[int, Row] = {}
        self.done: set[int] = set()
        self.luck = random.Random(0)
        self.is_lucky = True
        self._delete = DeletePolicy()

    def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        drop = self._delete.plan(log, groups, config, now_ms)
        return drop and replace(drop, before_delete=self.keep)

    def keep(self, segments: SealedSegments) -> None:
        offsets = set()
        for record in segments.records():
            assert record.key is not None
            row = Row(record.timestamp, record.key, record.value)
            assert self.kept.setdefault(record.offset, row) == row, (
                "an offset that was handed over is that record for good"
            )
            offsets.add(record.offset)
            if not self.is_lucky and self.luck.random() < 0.1:
                raise OSError("bad luck")
        self.done |= offsets
        if not self.is_lucky and self.luck.random() < 0.3:
            raise OSError("bad luck in the end")


class KeepingMachine(RuleBasedStateMachine):
    """`rows`: offset -> all that was ever appended and may be there; `safe`: all below was seen by
    consumers; `start`: the log start as last seen.
    """

    kind: str

    @initialize()
    def begin(self) -> None:
        self.disk = FaultyStorage()
        self.sim = Simulation(BROKER, storage=self.disk, clock=ManualClock())
        self.sim.topic("t", **SMALL, **TOPICS[self.kind])
        self.rows: dict[int, Row] = {}
        self.safe = self.start = self.deleted_below = 0
        self.newest_ms = self.sim.clock.wall_ms()  # the clock's greatest so far

    def __init__(self) -> None:
        super().__init__()
        self.keeper = Keeper()
        with contextlib.ExitStack() as stack:
            stack.enter_context(POLICIES.added("first", self.keeper, "a test"))
            self.registered = stack.pop_all()

    @property
    def partition(self) -> Partition:
        return self.sim.broker.topics.get("t").partition(0)

    @property
    def is_compacted(self) -> bool:
        return "compact" in TOPICS[self.kind]["cleanup_policy"]

    # --- what clients do

    @rule(
        batches=st.lists(PAIRS, min_size=1, max_size=8),
        codec=st.sampled_from(["none", "none", "gzip"]),
        settle=st.booleans(),
    )
    def append(self, batches: list[list[tuple[bytes, int | None]]], codec: str, settle: bool) -> None:
        for pairs in batches:
            now_ms = self.sim.clock.wall_ms()
            base = self.partition.log_end_offset
            rows = [
                Row(now_ms + number, key, None if size is None else b"v" * size)
                for number, (key, size) in enumerate(pairs)
            ]
            self.rows.update({base + number: row for number, row in enumerate(rows)})
            records = [Record(number, row.time, row.key, row.value) for number, row in enumerate(rows)]
            batch = build_batch(records, base_offset=0, codec=codec)
            assert self.partition.append(memoryview(batch), read_header(batch)).base_offset == base
        if settle:
            self.sim.settle()

    @rule(batches=st.lists(PAIRS, min_size=5, max_size=12))
    def append_much(self, batches: list[list[tuple[bytes, int | None]]]) -> None:
        self.append(batches, "none", True)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.sim.settle()
        offset = data.draw(st.integers(self.partition.log_start_offset, self.partition.high_watermark))
        topic = self.sim.broker.topics.get("t")
        if self.kind == "compact":
            with pytest.raises(PolicyViolation):
                self.sim.broker.upkeep.deletion.delete_before(topic, 0, offset)
            return
        promise = self.sim.broker.upkeep.deletion.delete_before(topic, 0, offset)
        self.deleted_below = max(self.deleted_below, offset)
        assert self.sim.result(promise) >= offset

    @rule()
    def read_outside(self) -> None:
        for offset in (self.partition.log_start_offset - 1, self.partition.log_end_offset + 1):
            with pytest.raises(OffsetOutOfRange):
                self.partition.read(offset, 100)

    # --- what time does

    @rule(ms=st.sampled_from([1_000, MINUTE_MS, 6 * MINUTE_MS, 35 * MINUTE_MS]))
    def wait(self, ms: int) -> None:
        self.sim.advance(ms)
        self.newest_ms = max(self.newest_ms, self.sim.clock.wall_ms())

    @rule(ms=st.integers(-2 * HOUR_MS, 2 * HOUR_MS))
    def set_the_clock(self, ms: int) -> None:
        self.sim.clock.set_wall(self.sim.clock.wall_ms() + ms)
        self.newest_ms = max(self.newest_ms, self.sim.clock.wall_ms())

    @rule()
    def wait_long(self) -> None:
        """All that retention and compaction have to do is done then."""
        self.keeper.is_lucky = True
        newest = max((row.time for row in self.rows.values()), default=0)
        self.sim.clock.set_wall(max(self.sim.clock.wall_ms(), newest) + 2 * RETENTION_MS)
        self.sim.advance(30 * MINUTE_MS)
        self.newest_ms = self.sim.clock.wall_ms()
        if "retention_ms" in TOPICS[self.kind] and TOPICS[self.kind]["retention_ms"] != "-1":
            assert self.read() == {}
        files = [entry.name for entry in self.disk.list("t-0")]
        assert not [name for name in files if name.endswith((".deleted", ".cleaned", ".swap"))]

    @rule(is_lucky=st.booleans(), seed=st.integers(0, 1000))
    def change_luck(self, is_lucky: bool, seed: int) -> None:
        self.keeper.is_lucky = is_lucky
        self.keeper.luck.seed(seed)

    # --- what fate does

    @rule()
    def stop_and_start(self) -> None:
        self.sim.stop()
        self.sim = self.sim.restarted()

    @rule()
    def crash(self) -> None:
        """The process ends; all that it wrote is there."""
        self.disk = self.disk.after_cut(Remains.KEPT, random.Random(0))
        self._start_again()

    @rule(
        steps=st.integers(1, 40), remains=st.sampled_from(Remains), seed=st.integers(0, 1000), minutes=st.integers(0, 8)
    )
    def cut_power(self, steps: int, remains: Remains, seed: int, minutes: int) -> None:
        self.disk.cut_at = len(self.disk.steps) + steps
        try:
            self.sim.advance(minutes * MINUTE_MS)
            self.disk.cut()
        except PowerCut:
            pass
        self.newest_ms = max(self.newest_ms, self.sim.clock.wall_ms())
        self.disk = self.disk.after_cut(remains, random.Random(seed))
        self._start_again()

    def _start_again(self) -> None:
        sim = self.sim
        self.sim = Simulation(BROKER, storage=self.disk, store=sim.store, clock=sim.clock, seed=1)
        end = self.partition.log_end_offset
        assert end >= self.safe
        self.rows = {offset: row for offset, row in self.rows.items() if offset < end}

    # --- what must hold

    def read(self) -> dict[int, Row]:
        """All that a consumer is given, from the log start on."""
        records_by_offset = {}
        offset = self.partition.log_start_offset
        while fetched := self.partition.read(offset, 1000).fetched:
            data = fetched.read()
            for position, header in iter_batches(data):
                check_crc(data, position, header)
                for record in iter_records(data, position):
                    if record.offset >= offset:
                        assert record.key is not None
                        records_by_offset[record.offset] = Row(record.timestamp, record.key, record.value)
            offset = fetched.next_offset
        assert offset == self.partition.high_watermark
        return records_by_offset

    @invariant()
    def the_log_is_what_the_list_says(self) -> None:
        if not hasattr(self, "sim"):
            return
        partition = self.partition
        high, start = partition.high_watermark, partition.log_start_offset
        assert start >= self.start
        assert high >= self.safe
        self._check_dropped(start)
        records = self.read()
        for offset, row in records.items():
            assert row == self.rows[offset]
        for offset, row in self.keeper.kept.items():
            assert row == self.rows[offset], "what was handed over is never lost, and its offset never another record's"
        gone = [offset for offset in self.rows if start <= offset < high and offset not in records]
        self._check_gone(gone, high)
        self.start, self.safe = start, high

    def _check_dropped(self, start: int) -> None:
        dropped = [offset for offset in self.rows if max(self.start, self.deleted_below) <= offset < start]
        if not dropped:
            return
        if self.kind == "delete by size":
            assert self.partition.log.segments.size >= RETENTION_BYTES, "S5.1: what remains is at or above the limit"
        else:
            assert self.kind in ("delete by age", "both", "first", "first, compacted")
            young = {offset for offset in dropped if self.rows[offset].time >= self.newest_ms - RETENTION_MS}
            assert self._compacted(young) == young
        if "first" in self.kind:
            unseen = set(dropped) - self.keeper.done
            assert self._compacted(unseen) == unseen, "nothing goes that was not handed over, and taken"

    def _compacted(self, offsets: set[int]) -> set[int]:
        """Those of the offsets that compaction may have taken before the drop: their key has a
        later value, or they are deletions.
        """
        if not self.is_compacted:
            return set()
        last = {row.key: offset for offset, row in sorted(self.rows.items())}
        return {offset for offset in offsets if last[self.rows[offset].key] > offset or self.rows[offset].value is None}

    def _check_gone(self, gone: list[int], high: int) -> None:
        assert not gone or self.is_compacted
        last = {row.key: offset for offset, row in sorted(self.rows.items()) if offset < high}
        for offset in gone:
            row = self.rows[offset]
            assert last[row.key] > offset or row.value is None, "S5.2: each key keeps its last value"

    @invariant()
    def what_was_cleaned_is_clean(self) -> None:
        if not hasattr(self, "sim") or not self.is_compacted:
            return
        clean_to = self.sim.logs.checkpoints.cleaner_offset(("t", 0)) or 0
        keys = [row.key for offset, row in self.read().items() if offset < clean_to]
        assert len(keys) == len(set(keys))

    def teardown(self) -> None:
        with self.registered:
            if hasattr(self, "sim"):
                self.stop_and_start()
                self.the_log_is_what_the_list_says()
                self.sim.stop()


@pytest.mark.parametrize("kind", corners(TOPICS, "delete by age", "both"))
def test_a_partition_is_what_the_list_says(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pre_delete, "TASK_BYTES_MAX", 1200)
    run_state_machine_as_test(
        type("Machine", (KeepingMachine,), {"kind": kind}),
        settings=settings(
            max_examples=examples(20),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
