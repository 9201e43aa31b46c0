"""One partition's leader and the tier: order of its jobs, fencing, damage, crashes in between."""

from __future__ import annotations

import errno
import logging

import pytest

from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.tier.test_tier_reads import tiered
from kqueue.tests.broker.tier.tiered_brokers import INTERVAL_MS, TieredClient
from kqueue.tier.errors import TierUnavailable
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.wire.error_codes import ErrorCode


def test_leader_that_a_later_one_fenced_writes_no_more(caplog: pytest.LogCaptureFixture) -> None:
    client = tiered(10)
    partition = client.sim.broker.topics.get("t").partition(0)
    other = Manifest(client.store, client.state(partition).manifest.partition)
    other.refresh()
    other.claim(partition.leader_epoch + 1, Lineage([(0, 0)], partition.leader_epoch + 1, 10))
    objects = client.objects()
    caplog.set_level(logging.WARNING)
    client.fill(10, start=10)
    client.tick(5)
    assert client.objects() == objects
    assert len([line for line in caplog.messages if "writes the manifest" in line]) == 1
    assert client.read_all() == [b"v%d" % number for number in range(20)]


def test_partition_has_one_job_at_a_time_and_expires_before_it_copies_on() -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    client.fill(20)
    client.sim.jobs.held = "tier"
    client.sim.advance(INTERVAL_MS)
    host = client.tier.host
    assert host.copies.running + host.manifests.running <= 1
    client.sim.jobs.release()
    client.sim.settle()
    assert partition.log.tiered_end == 18
    assert client.tier.leaders.copied_segments == 9


def test_log_without_appends_is_flushed_before_it_is_copied() -> None:
    client = TieredClient(**{"kqueue.flush": "kafka"})
    partition = client.topic().partition(0)
    client.fill(10)
    partition.log.flusher.flushed_offset = 3  # as if it had been cut, and nothing is appended since
    client.tick(3)
    assert partition.log.flushed_offset >= 8
    assert partition.log.tiered_end == 8


def test_copies_of_all_partitions_are_bounded() -> None:
    client = TieredClient()
    client.topic(partitions=15)
    for partition in range(15):
        client.fill(4, partition=partition)
    client.tick(1)
    client.sim.jobs.held = "tier copies"
    for partition in range(15):
        client.fill(4, partition=partition)
    client.tick(1)
    assert (client.tier.host.copies.running, client.tier.host.copies.waiting) == (10, 5)
    client.sim.jobs.release()
    client.tick(1)
    assert all(each.log.tiered_end == 6 for each in client.sim.broker.topics.get("t").partitions)


def test_damaged_segment_is_not_copied_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    client.fill(10)
    path = "t-0/00000000000000000004.log"
    data = bytearray(client.sim.storage.read(path))
    data[40] ^= 1
    client.sim.storage.write_atomic(path, bytes(data))
    client.tick(5)
    assert (partition.log.tiered_end, partition.log.local_start_offset) == (4, 4)
    assert len([line for line in caplog.messages if "it is not copied into the tier" in line]) == 1
    assert client.tier.leaders.copy_errors == 1


def test_answer_that_was_lost_is_read_again() -> None:
    client = TieredClient()
    partition = client.topic().partition(0)
    client.fill(6)
    put_if, lost = client.store.store.put_if, []

    def lose(key: str, body: bytes, expected: str | None) -> str:
        version = put_if(key, body, expected)
        if b'"segments":[{' in body and not lost:
            lost.append(key)
            raise TierUnavailable("the answer was lost")
        return version

    client.store.store.put_if = lose  # type: ignore[method-assign]
    client.tick(4)
    assert lost
    assert partition.log.tiered_end == 4
    assert client.read_all() == [b"v%d" % number for number in range(6)]


def test_log_whose_checkpoint_of_its_start_was_lost_starts_where_the_tier_does() -> None:
    client = tiered()
    client.sim.stop()
    client.sim.storage.remove("log-start-offset-checkpoint")
    client = TieredClient(client.store, sim=client.sim.restarted())
    assert client.sim.broker.topics.get("t").partition(0).log.start_offset == 18
    client.tick()
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.start_offset, log.local_start_offset) == (0, 18)
    assert client.read_all() == [b"v%d" % number for number in range(20)]


def test_tier_that_is_gone_is_not_begun_again(caplog: pytest.LogCaptureFixture) -> None:
    client = tiered()
    client.sim.stop()
    client.store.store.delete(client.objects())
    client = TieredClient(client.store, sim=client.sim.restarted())
    client.fill(10, start=20)
    client.tick(5)
    assert not [key for key in client.objects() if not key.endswith("topic.json")]
    assert len([line for line in caplog.messages if "the tier ends at 0, and the disk begins at 18" in line]) == 1
    assert client.read(3).error_code == ErrorCode.CORRUPT_MESSAGE, "no consumer is told to begin elsewhere"
    assert client.read_all(18) == [b"v%d" % number for number in range(18, 30)]
    topic = client.sim.broker.topics.get("t")
    client.sim.result(client.sim.broker.upkeep.deletion.delete_before(topic, 0, 18))
    client.tick(5)
    assert topic.partition(0).log.tiered_end == 28, "who gives up the lost records goes on with the others"


def copied(storage: MemoryStorage, clock: ManualClock) -> MemoryStorage:
    copy = MemoryStorage(clock)
    for entry in storage.list(""):
        if not entry.is_folder:
            copy.write_atomic(entry.name, storage.read(entry.name))
            continue
        copy.make_folder(entry.name)
        for file in storage.list(entry.name):
            path = f"{entry.name}/{file.name}"
            copy.write_atomic(path, storage.read(path))
    return copy


def test_disk_that_is_older_than_the_tier_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    client = tiered(10)
    client.sim.stop()
    backup = copied(client.sim.storage, client.sim.clock)
    client = TieredClient(client.store, sim=client.sim.restarted())
    client.fill(10, start=10)
    client.tick()
    client.sim.stop()
    objects = client.objects()
    sim = Simulation(client.sim.settings, storage=backup, store=client.sim.store, clock=client.sim.clock, seed=9)
    client = TieredClient(client.store, sim=sim)
    client.fill(6, start=10)
    client.tick(5)
    log = client.sim.broker.topics.get("t").partition(0).log
    assert len([line for line in caplog.messages if "the disk is older than the tier" in line]) == 1
    assert (client.objects(), log.tiered_end) == (objects, 0)
    assert log.local_start_offset == 8, "nothing is deleted here, as nothing is copied"


def test_log_start_that_a_full_disk_did_not_take_is_raised_when_there_is_room() -> None:
    storage = FaultyStorage()
    client = TieredClient(storage=storage)
    partition = client.topic(retention_ms="60000").partition(0)
    client.fill(20)
    client.tick()
    storage.fail("append", lambda path: path.startswith("log-start"), number=errno.ENOSPC)
    client.sim.advance(61_000)
    assert partition.log.start_offset == 0
    assert client.read(3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "it has expired, and is not damaged"
    assert len(client.objects()) > 2, "nothing is deleted in the tier before the log start is on the disk"
    storage.mend()
    client.tick(3)
    assert partition.log.start_offset == 20
    assert len(client.objects()) == 2


def test_start_that_the_manifest_has_raised_holds_after_a_crash() -> None:
    client = tiered()
    partition = client.sim.broker.topics.get("t").partition(0)
    client.state(partition).manifest.raise_start(partition.leader_epoch, 6)
    client.sim.stop()
    client = TieredClient(client.store, sim=client.sim.restarted())
    client.tick()
    assert client.sim.broker.topics.get("t").partition(0).log.start_offset == 6
