"""Plain and transactional commits, markers, deletions and expiry in any order, with power cuts.

The model reads the log record by record, as Kafka's coordinator does: it compares record offsets.
What the coordinator holds in memory, and what a restarted one replays, is what the model finds.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import RequestRefused, StorageFailed
from kqueue.groups.log import records
from kqueue.groups.log.group_log import EndMarker, LogEntry, TransactionalRecord
from kqueue.groups.log.schemas import OffsetCommitKey
from kqueue.tests.groups.support import (
    World,
    commit_simple,
    commit_transactional,
    committed_offsets,
    end_transaction,
    leave_and_return,
)
from kqueue.tests.thorough import examples

GROUPS = ("g", "h")
PRODUCERS = st.sampled_from([1, 1, 2])
PARTITIONS = st.sampled_from([0, 0, 0, 1])
GROUP = st.sampled_from(["g", "g", "g", "h"])
TOPIC = st.sampled_from(["t", "t", "t", "u"])
RETENTION_MINUTES = 60
Key = tuple[str, str, int]


class LogModel:
    """One partition of the log, read from its start. Source: Kafka OffsetMetadataManager.replay."""

    def __init__(self, entries: list[LogEntry]) -> None:
        self.committed: dict[Key, tuple[int, int]] = {}  # key -> record offset, value
        self.pending: dict[int, dict[Key, tuple[int, int]]] = {}
        self.aborted: list[tuple[Key, int]] = []
        for position, entry in enumerate(entries):
            if isinstance(entry, EndMarker):
                self._end(entry)
            elif isinstance(entry, TransactionalRecord):
                key, value = _decode(entry.key, entry.value)
                if key is not None and value is not None:
                    self.pending.setdefault(entry.producer_id, {})[key] = (position, value)
            else:
                key, value = _decode(*entry)
                if key is None:
                    continue
                if value is not None:
                    self.committed[key] = (position, value)
                    continue
                self.committed.pop(key, None)
                for offsets in self.pending.values():
                    offsets.pop(key, None)

    def _end(self, marker: EndMarker) -> None:
        for key, (position, value) in self.pending.pop(marker.producer_id, {}).items():
            if not marker.committed:
                self.aborted.append((key, value))
            elif key not in self.committed or self.committed[key][0] < position:
                self.committed[key] = (position, value)


def _decode(raw_key: bytes, value: bytes | None) -> tuple[Key | None, int | None]:
    key = records.read_key(raw_key)
    if not isinstance(key, OffsetCommitKey):
        return None, None
    return (key.group, key.topic, key.partition), None if value is None else records.read_offset(value).offset


class OffsetsInTransactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(offsets_retention_minutes=RETENTION_MINUTES)
        self.number = 0
        self.promises: list[Any] = []

    def next_number(self) -> int:
        self.number += 1
        return self.number

    # --- requests

    @rule(group_id=GROUP, topic=TOPIC, partition=PARTITIONS)
    def commit(self, group_id: str, topic: str, partition: int) -> None:
        with contextlib.suppress(RequestRefused):
            self.promises.append(commit_simple(self.world, self.next_number(), topic, partition, group_id))

    @rule(group_id=GROUP, topic=TOPIC, partition=PARTITIONS, producer_id=PRODUCERS)
    def commit_in_transaction(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        with contextlib.suppress(RequestRefused):
            promise = commit_transactional(self.world, self.next_number(), producer_id, topic, partition, group_id)
            self.promises.append(promise)

    @rule(group_id=GROUP, producer_id=PRODUCERS, committed=st.sampled_from([True, True, False]))
    def end(self, group_id: str, producer_id: int, committed: bool) -> None:
        end_transaction(self.world, producer_id, committed=committed, group_id=group_id)

    @rule(group_id=GROUP, partition=PARTITIONS, producer_id=PRODUCERS, other=st.sampled_from([None, 1, 2]))
    def overtake(self, group_id: str, partition: int, producer_id: int, other: int | None) -> None:
        """Another commit of the same partition comes before the end of a transaction."""
        self.commit_in_transaction(group_id, "t", partition, producer_id)
        if other is None:
            self.commit(group_id, "t", partition)
        else:
            self.commit_in_transaction(group_id, "t", partition, other)
            self.end(group_id, other, True)
        self.end(group_id, producer_id, True)

    @rule(group_id=GROUP)
    def delete_group(self, group_id: str) -> None:
        with contextlib.suppress(RequestRefused):
            self.promises.append(self.world.groups.delete(group_id))

    @rule(group_id=GROUP, topic=TOPIC, partition=PARTITIONS)
    def delete_offset(self, group_id: str, topic: str, partition: int) -> None:
        with contextlib.suppress(RequestRefused):
            self.promises.append(self.world.groups.delete_offsets(group_id, [(topic, partition)]))

    @rule(topic=TOPIC)
    def delete_topic(self, topic: str) -> None:
        self.world.groups.delete_topic(topic)

    # --- time and the log

    @rule(minutes=st.sampled_from([1, 11, RETENTION_MINUTES, 2 * RETENTION_MINUTES]))
    def pass_time(self, minutes: int) -> None:
        self.world.advance(minutes * 60_000)

    @rule()
    def stall(self) -> None:
        self.world.log.hold = True

    @precondition(lambda self: self.world.log.held)
    @rule(count=st.integers(1, 3))
    def flush_some(self, count: int) -> None:
        self.world.log.release(count)

    @rule()
    def flow(self) -> None:
        self.world.log.hold = False
        while self.world.log.held:
            self.world.log.release(1)
        self.world.settle()

    @precondition(lambda self: self.world.log.held)
    @rule()
    def break_log(self) -> None:
        self.world.log.fail(StorageFailed("the disk is gone"))

    @rule()
    def cut_power(self) -> None:
        """What is not flushed is lost, and so are its responses."""
        self.world = self.world.restarted(offsets_retention_minutes=RETENTION_MINUTES)
        self.promises.clear()

    @rule(survive=st.integers(0, 3))
    def move(self, survive: int) -> None:
        """Another broker leads the log for a while."""
        leave_and_return(self.world, survive)
        assert all(promise.done for promise in self.promises)

    # --- what must hold

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        models = [LogModel(entries) for entries in self.world.log.partitions]
        for seen in (self.world, self.world.restarted()):
            self.check(seen, models)

    def check(self, world: World, models: list[LogModel]) -> None:
        expected = {key: value for model in models for key, (_, value) in model.committed.items()}
        actual = {
            (group_id, *key): value for group_id in GROUPS for key, value in committed_offsets(world, group_id).items()
        }
        assert actual == expected
        pending = {key for model in models for offsets in model.pending.values() for key in offsets}
        for group_id in GROUPS:
            keys = {(topic, partition) for group, topic, partition in pending if group == group_id}
            assert world.groups._offsets.store.pending.keys(group_id) == keys
        assert not set(actual.items()).intersection(aborted for model in models for aborted in model.aborted), (
            "nothing of an aborted transaction is seen"
        )
        with_offsets = {key[0] for key in expected} | {key[0] for key in pending}
        assert with_offsets <= {group.group_id for group in world.groups.groups()}

    @invariant()
    def memory_is_accounted(self) -> None:
        groups = self.world.groups
        pending = sum(
            len(offsets) for entries in self.world.log.partitions for offsets in LogModel(entries).pending.values()
        )
        committed = sum(len(committed_offsets(self.world, group_id)) for group_id in GROUPS)
        writing = sum(
            sum(isinstance(records.read_key(key), OffsetCommitKey) and value is not None for key, value in pairs)
            for pairs in ([_pair(entry) for entry in entries] for _, entries, _ in self.world.log.held)
        )
        assert groups.limits.offset_bytes == 200 * (pending + committed + writing)

    @invariant()
    def responses_come_once(self) -> None:
        woken = Counter(map(id, self.world.woken))
        assert all(woken[id(promise)] == 1 for promise in self.promises if promise.done and id(promise) in woken)

    def teardown(self) -> None:
        self.flow()
        for group_id in GROUPS:
            for producer_id in (1, 2):
                end_transaction(self.world, producer_id, committed=False, group_id=group_id)
        self.world.advance(RETENTION_MINUTES * 60_000 + 2 * 600_000)
        assert self.world.groups.groups() == [], "without open transactions everything expires"
        assert all(promise.done for promise in self.promises)
        self.memory_is_accounted()


def _pair(entry: LogEntry) -> tuple[bytes, bytes | None]:
    if isinstance(entry, TransactionalRecord):
        return entry.key, entry.value
    return (records.group_key(""), None) if isinstance(entry, EndMarker) else entry


OffsetsInTransactions.TestCase.settings = settings(
    max_examples=examples(120), stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestOffsetsInTransactions = OffsetsInTransactions.TestCase
