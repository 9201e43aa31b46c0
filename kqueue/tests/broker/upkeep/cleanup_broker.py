"""Brokers in simulation with short cleanup intervals, and their records, for tests."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

from kqueue.base.config import TopicConfig
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import Topic
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.log.policies import POLICIES, Cleanup, CommittedOffsets, LogView
from kqueue.records.batch import (
    Record,
    iter_batches,
    iter_records,
    read_header,
)
from kqueue.records.builder import build_batch
from kqueue.testing.faulty_storage import FaultyStorage, Remains
from kqueue.testing.simulation import Simulation

CHECK_MS = 10_000
SETTINGS = {"log.retention.check.interval.ms": CHECK_MS, "log.cleaner.backoff.ms": 1000}
SEGMENT = {"segment_bytes": "500"}


def broker_on(storage: str) -> Simulation:
    if storage == "memory":
        return Simulation({**SETTINGS, "kqueue.storage": "memory"})
    return Simulation(SETTINGS, storage=FaultyStorage() if storage == "faulty" else None)


def put(sim: Simulation, partition: Partition, key: bytes | None, value: bytes | None) -> None:
    batch = build_batch([Record(0, sim.clock.wall_ms(), key, value)])
    partition.append(memoryview(batch), read_header(batch))
    sim.settle()


def fill(
    sim: Simulation, partition: Partition, count: int, *, keys: int = 5, every_ms: float = 0, value: bytes = b"." * 100
) -> None:
    """Records of about 180 bytes, so that two fit into a segment; value `<number>.....`."""
    for _ in range(count):
        number = partition.log_end_offset
        put(sim, partition, b"key-%d" % (number % keys), b"%d" % number + value)
        sim.advance(every_ms)


def records(partition: Partition) -> list[Record]:
    """Return the records that a consumer sees which begins at the log start."""
    result: list[Record] = []
    offset = partition.log_start_offset
    while data := (fetched := partition.read_now(offset, 1 << 20)).read():
        result += [
            record
            for position, _ in iter_batches(data)
            for record in iter_records(data, position)
            if record.offset >= offset
        ]
        offset = fetched.next_offset
    return result


def offsets(partition: Partition) -> list[int]:
    return [record.offset for record in records(partition)]


def latest(partition: Partition) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records(partition) if record.value is not None}


def bases(partition: Partition) -> list[int]:
    return [segment.base for segment in partition.log.segments]


def names(sim: Simulation, topic: Topic, index: int = 0, suffix: str = "") -> list[str]:
    return [entry.name for entry in sim.storage.list(f"{topic.name}-{index}") if entry.name.endswith(suffix)]


def commit(sim: Simulation, group: str, topic: str, offset: int, partition: int = 0) -> None:
    offsets = [OffsetToCommit(topic, partition, offset)]
    assert sim.result(sim.broker.coordinators.groups.commit(group, -1, "", None, offsets)) == [None]


@contextlib.contextmanager
def policy(name: str, plan: Callable[[LogView, CommittedOffsets, TopicConfig, int], Any]) -> Iterator[None]:
    """A plugin's policy, as an installed distribution would register it."""

    class Plugin:
        def plan(self, log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Cleanup | None:
            result: Cleanup | None = plan(log, groups, config, now_ms)
            return result

    plugin = Plugin()
    plugin.name = name  # type: ignore[attr-defined]
    with POLICIES.added(name, plugin, "a test"):  # type: ignore[arg-type]
        yield


def check_restart(sim: Simulation, name: str) -> Simulation:
    """What is there now is there after a clean stop, and (of what is on a disk) after a power cut
    without one.
    """
    partition = sim.broker.topics.partition(name, 0)
    all_records, start = records(partition), partition.log_start_offset
    sim.settle()
    if isinstance(sim.storage, FaultyStorage):
        for remains in Remains:
            left = sim.storage.after_cut(remains, random.Random(1))
            other = Simulation(sim.settings, storage=left, store=sim.store, clock=sim.clock)
            again = other.broker.topics.partition(name, 0)
            assert (records(again), again.log_start_offset) == (all_records, start)
        return sim
    sim.stop()
    restarted = sim.restarted()
    again = restarted.broker.topics.partition(name, 0)
    assert (records(again), again.log_start_offset, again.log_end_offset) == (
        all_records,
        start,
        all_records[-1].offset + 1 if all_records else start,
    )
    return restarted


# --- delete
