from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator

import pytest

from kqueue.base.errors import (
    CoordinatorLoadInProgress,
    CorruptData,
    KqueueError,
    MalformedMessage,
    NotCoordinator,
    TooManyOpenFiles,
)
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.coordinators.coordinator_loads import RETRY_MS, CoordinatorLoads
from kqueue.broker.coordinators.internal_topic_log import CoordinatorRecord
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.records.batch import Record, read_header
from kqueue.records.builder import build_batch
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.test_broker import kill
from kqueue.tests.tables import for_each

SELF, OTHER = 1, 2
SETTINGS = {"offsets.topic.num.partitions": 2}
GROUPS = [f"group-{number}" for number in range(20)]


def committed(sim: Simulation) -> Simulation:
    for group in GROUPS:
        assert sim.result(
            sim.broker.coordinators.groups.commit(group, -1, "", None, [OffsetToCommit("t", 0, 7, -1, "")])
        ) == [None]
    return sim


def started(sim: Simulation) -> Simulation:
    return Simulation(SETTINGS, storage=sim.storage, store=sim.store, clock=sim.clock, recovers=False)


class Recorded:
    """A coordinator and its log."""

    def __init__(self, *records: CoordinatorRecord, errors: Iterable[Exception] = ()) -> None:
        self.records = records
        self.errors = list(errors)
        self.removal_jobs = 0
        self.events: list[object] = []

    def require_load(self) -> None:
        self.events.append("require")

    def unload(self, partition: int) -> SlicedWork[None]:
        self.events.append("unload")
        return self._removal()

    def _removal(self) -> SlicedWork[None]:
        for _ in range(self.removal_jobs):
            yield lambda: self.events.append("job")
        yield None
        self.events.append("unloaded")

    def begin_loading(self, partition: int) -> None:
        self.events.append("begin")

    def load(self, partition: int, log_records: Iterable[CoordinatorRecord]) -> SlicedWork[None]:
        for record in log_records:
            self.events.append(record)
            yield None
        self.events.append("loaded")

    def refuse(self, partition: int, reason: str) -> None:
        self.events.append(("refuse", reason))

    def read(self, partition: Partition) -> Iterator[CoordinatorRecord]:
        yield from self.records
        if self.errors:
            raise self.errors.pop(0)


def loads_of(sim: Simulation, ended: list[int]) -> CoordinatorLoads:
    return CoordinatorLoads(
        sim.broker.replicas.host.append_scheduler,
        sim.broker.scheduler.purgatory,
        sim.broker.scheduler.timers,
        sim.clock,
        lambda: ended.append(1),
    )


@for_each("clean", [True, False])
def test_groups_are_there_after_a_start(clean: bool) -> None:
    before = committed(Simulation(SETTINGS))
    before.stop() if clean else kill(before)
    sim = started(before)
    with pytest.raises(CoordinatorLoadInProgress):
        sim.broker.coordinators.groups.offsets(GROUPS[0])
    with pytest.raises(CoordinatorLoadInProgress):
        sim.broker.coordinators.groups.groups()
    sim.settle()
    assert sim.broker.ready.done
    assert [sim.broker.coordinators.groups.offsets(group)["t"][0].offset for group in GROUPS] == [7] * len(GROUPS)
    assert len(sim.broker.coordinators.groups.groups()) == len(GROUPS)


def test_each_partition_is_served_once_it_is_loaded() -> None:
    before = committed(Simulation(SETTINGS))
    kill(before)
    sim = started(before)
    partitions = sim.broker.topics.get(OFFSETS_TOPIC).partitions
    by_partition = {0: [], 1: []}  # type: dict[int, list[str]]
    for group in GROUPS:
        by_partition[sim.broker.coordinators.groups._writer.partition_of(group)].append(group)
    sim.broker.upkeep.recovery.drop([(OFFSETS_TOPIC, 1)], lambda: None)  # it stays as it is
    sim.settle()
    assert partitions[0].is_open
    assert sim.broker.coordinators.groups.offsets(by_partition[0][0])["t"][0].offset == 7
    with pytest.raises(CoordinatorLoadInProgress):
        sim.broker.coordinators.groups.offsets(by_partition[1][0])


def test_offsets_of_a_topic_deleted_meanwhile_are_deleted() -> None:
    before = Simulation(SETTINGS)
    before.topic("t")
    committed(before).stop()
    sim = started(before)
    promise = sim.broker.topics.delete("t")
    metadata = sim.jobs.pending.popleft()
    assert "delete" in metadata.name
    metadata.finish(metadata.run(), None)  # type: ignore[union-attr]
    assert promise.done
    assert not sim.broker.ready.done
    sim.settle()
    assert [dict(sim.broker.coordinators.groups.offsets(group)) for group in GROUPS] == [{}] * len(GROUPS)
    kill(sim)
    again = started(sim)
    again.settle()
    assert [dict(again.broker.coordinators.groups.offsets(group)) for group in GROUPS] == [{}] * len(GROUPS)


@pytest.mark.parametrize(
    "error", [MalformedMessage("a bad record"), CorruptData("a bad batch"), ZeroDivisionError("x")]
)
def test_partition_that_cannot_be_read_is_refused(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    sim, ended = Simulation(), list[int]()
    loads = loads_of(sim, ended)
    coordinator = Recorded((b"k", b"v"), errors=[error])
    loads.add(coordinator, coordinator, "things", [sim.topic("t").partition(0)])
    assert not loads.is_done
    sim.settle()
    assert loads.is_done
    assert ended == [1]
    assert coordinator.events[-1] == ("refuse", str(error) if "bad" in str(error) else repr(error))
    assert "the things of t-0 can't be served" in caplog.text


def test_too_many_open_files_only_delay_it() -> None:
    sim, ended = Simulation(), list[int]()
    loads = loads_of(sim, ended)
    coordinator = Recorded((b"k", b"v"), errors=[TooManyOpenFiles("none left")])
    loads.add(coordinator, coordinator, "things", [sim.topic("t").partition(0)])
    sim.settle()
    assert not loads.is_done
    sim.advance(RETRY_MS)
    assert coordinator.events == ["begin", (b"k", b"v"), (b"k", b"v"), "loaded"]
    assert loads.is_done


def test_a_stop_ends_it_at_the_next_step() -> None:
    sim, ended = Simulation(), list[int]()
    loads = loads_of(sim, ended)
    coordinator = Recorded((b"k", b"v"), (b"l", b"v"))
    loads.add(coordinator, coordinator, "things", [sim.topic("t").partition(0)])
    loads.stop()
    sim.settle()
    assert coordinator.events == ["begin"]


def test_a_refused_partition_stays_refused() -> None:
    before = committed(Simulation(SETTINGS))
    before.stop()
    for entry in before.storage.list(f"{OFFSETS_TOPIC}-0"):
        if entry.name.endswith(".log"):
            file = before.storage.open(f"{OFFSETS_TOPIC}-0/{entry.name}")
            size = file.size
            file.truncate(0)
            file.append(bytes(size))
    sim = started(before)
    sim.settle()
    assert sim.broker.ready.done
    outcomes = []
    for group in GROUPS:
        try:
            outcomes.append(sim.broker.coordinators.groups.offsets(group)["t"][0].offset)
        except (NotCoordinator, KeyError) as error:
            outcomes.append(type(error))
    assert 7 in outcomes
    assert set(outcomes) - {7}


# --- leaders


def registration(epoch: int, leader: int, *isr: int) -> PartitionRegistration:
    return PartitionRegistration((SELF, OTHER), isr or (SELF,), leader, leader_epoch=epoch, partition_epoch=epoch)


def followed(
    *records: CoordinatorRecord, storage: FaultyStorage | None = None
) -> tuple[Simulation, Partition, Recorded, CoordinatorLoads]:
    sim = Simulation(storage=storage)
    partition, coordinator = sim.topic("t").partition(0), Recorded(*records)
    loads = loads_of(sim, [])
    loads.follow("t", coordinator, coordinator, "things")
    sim.broker.replicas.host.replica_events.append(loads)
    return sim, partition, coordinator, loads


def test_a_coordinator_follows_the_leader_of_its_partition() -> None:
    sim, partition, coordinator, loads = followed((b"k", b"v"))
    partition.apply(registration(1, OTHER))
    sim.settle()
    assert coordinator.events == ["require"]
    for epoch in (2, 4):
        coordinator.events.clear()
        partition.apply(registration(epoch, SELF))
        assert coordinator.events == ["begin"]
        assert not loads.is_done
        sim.settle()
        assert coordinator.events == ["begin", (b"k", b"v"), "loaded"]
        assert loads.is_done
        coordinator.events.clear()
        partition.apply(registration(epoch + 1, OTHER if epoch == 2 else NO_LEADER))
        assert coordinator.events == ["unload"], "at once"
        sim.settle()
        assert coordinator.events == ["unload", "unloaded"]


def test_a_full_disk_only_delays_it(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that begins to lead creates the folder of its log; it serves the rest meanwhile."""
    storage = FaultyStorage()
    sim, partition, coordinator, loads = followed((b"k", b"v"), storage=storage)
    storage.fail("create", number=errno.ENOSPC)
    partition.apply(registration(1, SELF))
    sim.settle()
    assert coordinator.events == ["require", "begin"]
    assert loads.is_done
    assert "is loaded later" in caplog.text
    storage.mend()
    sim.advance(RETRY_MS)
    assert coordinator.events == ["require", "begin", (b"k", b"v"), "loaded"]


def test_a_leader_in_a_newer_epoch_loads_once_more() -> None:
    """Another broker may have led in an epoch between, of which this one has heard nothing."""
    sim, partition, coordinator, _ = followed((b"k", b"v"))
    partition.apply(registration(1, SELF))
    sim.settle()
    coordinator.events.clear()
    partition.apply(registration(5, SELF))
    assert coordinator.events == ["unload", "begin"]
    sim.settle()
    assert coordinator.events == ["unload", "begin", "unloaded", (b"k", b"v"), "loaded"]


def test_a_load_waits_for_the_end_of_the_unload() -> None:
    sim, partition, coordinator, loads = followed((b"k", b"v"))
    partition.apply(registration(1, SELF))
    sim.settle()
    coordinator.removal_jobs = 3
    coordinator.events.clear()
    partition.apply(registration(2, OTHER))
    partition.apply(registration(3, SELF))
    partition.apply(registration(4, SELF))
    while sim.broker.scheduler.purgatory.run_ready():  # and no job
        pass
    assert coordinator.events == ["unload", "begin", "unload", "begin"]
    sim.settle()
    assert (coordinator.events.count("job"), coordinator.events.count("unloaded")) == (6, 2)
    assert coordinator.events[-2:] == [(b"k", b"v"), "loaded"], "after both"
    assert coordinator.events.count("loaded") == 1
    assert loads.is_done


def test_a_load_that_is_overtaken_ends_without_effect() -> None:
    sim, partition, coordinator, loads = followed((b"k", b"v"), (b"l", b"v"))
    partition.apply(registration(1, SELF))
    for epoch in range(2, 9):
        partition.apply(registration(epoch, SELF if epoch % 2 else OTHER))
        if epoch % 3:
            sim.broker.scheduler.purgatory.run_ready()
    partition.apply(registration(9, OTHER))
    sim.settle()
    assert (
        coordinator.events.count("unload") == coordinator.events.count("unloaded") == coordinator.events.count("begin")
    )
    assert coordinator.events[-1] == "unloaded"
    assert loads.is_done
    coordinator.events.clear()
    partition.apply(registration(10, SELF))
    sim.settle()
    assert coordinator.events == ["begin", (b"k", b"v"), (b"l", b"v"), "loaded"]


def test_a_new_leader_loads_once_all_of_its_log_is_committed() -> None:
    sim, partition, coordinator, loads = followed((b"k", b"v"))
    batch = build_batch([Record(0, 0, b"k", b"v")])
    partition.append(memoryview(batch), read_header(batch), client=False)
    assert partition.high_watermark < partition.log_end_offset, "no flush has run"
    partition.apply(registration(1, SELF))
    for _ in range(5):
        sim.broker.scheduler.purgatory.run_ready()
        if coordinator.events[-1] != "begin":
            break
    assert partition.high_watermark == partition.log_end_offset or coordinator.events == ["require", "begin"]
    sim.settle()
    assert coordinator.events == ["require", "begin", (b"k", b"v"), "loaded"]
    assert loads.is_done


def test_a_deleted_topic_and_a_replica_that_moves_away_are_unloaded() -> None:
    sim, partition, coordinator, _ = followed()
    partition.apply(registration(1, SELF))
    sim.settle()
    partition.apply(registration(2, OTHER)._replace(replicas=(OTHER,)))
    sim.settle()
    assert coordinator.events[-2:] == ["unload", "unloaded"]


def test_other_topics_are_nobodys_concern() -> None:
    sim, _, coordinator, _ = followed()
    other = sim.topic("u").partition(0)
    other.apply(registration(1, SELF))
    other.apply(registration(2, OTHER))
    sim.settle()
    assert coordinator.events == ["require"]


def test_a_broker_of_a_cluster_coordinates_what_it_leads() -> None:
    """Groups, transactions and share groups, with the present registration of each partition."""
    sim = committed(Simulation(SETTINGS))
    broker = sim.broker
    broker.follow_leaders()
    first, second = broker.topics.get(OFFSETS_TOPIC).partitions
    for partition in (first, second):
        partition.apply(registration(1, SELF))
    sim.settle()
    assert [broker.coordinators.groups.offsets(group)["t"][0].offset for group in GROUPS] == [7] * len(GROUPS)
    second.apply(registration(2, OTHER))
    sim.settle()
    here = [group for group in GROUPS if broker.coordinators.groups.partition_of(group) == 0]
    assert sorted(group.group_id for group in broker.coordinators.groups.groups()) == sorted(here)
    elsewhere = next(group for group in GROUPS if group not in here)
    with pytest.raises(NotCoordinator):
        broker.coordinators.groups.offsets(elsewhere)
    with pytest.raises(NotCoordinator):
        broker.coordinators.transactions.describe("tx")
    second.apply(registration(3, SELF))
    with pytest.raises(CoordinatorLoadInProgress):
        broker.coordinators.groups.offsets(elsewhere)
    sim.settle()
    assert len(broker.coordinators.groups.groups()) == len(GROUPS)


def test_a_load_waits_while_too_few_replicas_are_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    sim, partition, coordinator, loads = followed((b"k", b"v"))
    outcome: list[KqueueError | bool] = [NotEnoughReplicasAfterAppend("only 1 is in sync")]

    def answer(self: Partition, offset: int) -> bool:
        if isinstance(outcome[0], KqueueError):
            raise outcome[0]
        return outcome[0]

    monkeypatch.setattr(Partition, "is_committed", answer)
    partition.apply(registration(1, SELF))
    for waiting in (outcome[0], False):
        outcome[0] = waiting
        sim.broker.scheduler.purgatory.wake(partition)
        sim.settle()
        assert coordinator.events == ["require", "begin"]
        assert loads.is_done, "the other replicas may start after this broker is ready"
    outcome[0] = True
    sim.broker.scheduler.purgatory.wake(partition)
    sim.settle()
    assert coordinator.events[-1] == "loaded"
    assert loads.is_done
