"""A broker that lost its logs, and has its metadata and its tier."""

from __future__ import annotations

import errno

from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import batch
from kqueue.tests.broker.tier.test_tier_reads import tiered
from kqueue.tests.broker.tier.tiered_brokers import INTERVAL_MS, TieredClient
from kqueue.tests.tables import for_each
from kqueue.tier.errors import TierUnavailable
from kqueue.wire.error_codes import ErrorCode


def without_logs(client: TieredClient, storage: Storage | None = None) -> TieredClient:
    """The broker with an empty disk, whose cluster id stays."""
    client.sim.stop()
    old, storage = client.sim.storage, storage or MemoryStorage(client.sim.clock)
    storage.write_atomic("meta.properties", old.read("meta.properties"))
    sim = Simulation(client.sim.settings, storage=storage, store=client.sim.store, clock=client.sim.clock, seed=5)
    return TieredClient(client.store, sim=sim)


def test_leader_without_its_logs_goes_on_at_the_end_of_the_tier() -> None:
    client = without_logs(tiered())
    client.tick()
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 18, 18)
    client.fill(6, start=18)
    client.tick()
    assert client.read_all() == [b"v%d" % number for number in range(24)]


def test_leader_without_its_logs_takes_nothing_before_the_tier_has_answered() -> None:
    client = tiered()
    client.store.error = TierUnavailable("no route")
    client = without_logs(client)
    client.tick()
    assert client.produce("t", batch(b"early")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert client.read(7).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    client.store.error = None
    client.sim.advance(INTERVAL_MS)
    assert client.produce("t", batch(b"late")).base_offset == 18
    assert client.read_all()[-1] == b"late"


def test_offsets_go_on_behind_a_tier_that_has_expired() -> None:
    client = tiered(retention_ms="10000", local_retention_ms="1")
    client.sim.advance(60_000)
    assert client.sim.broker.topics.get("t").partition(0).log.start_offset == 20
    client = without_logs(client)
    client.tick()
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.start_offset, log.end_offset) == (20, 20)


def test_log_that_local_retention_has_emptied_waits_for_no_tier_at_a_start() -> None:
    client = TieredClient()
    client.topic(local_retention_ms="1000")
    client.fill(10)
    client.tick(5)
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.local_start_offset, log.end_offset) == (10, 10)
    client.store.error = TierUnavailable("no route")
    client.sim.stop()
    client = TieredClient(client.store, sim=client.sim.restarted())
    assert client.produce("t", batch(b"here")).base_offset == 10
    client.store.error = None
    client.tick()
    assert client.read_all()[:10] == [b"v%d" % number for number in range(10)]


def test_new_topic_of_a_running_broker_does_not_wait_for_the_tier() -> None:
    client = TieredClient()
    client.store.error = TierUnavailable("no route")
    client.topic()
    client.fill(3)
    assert client.read_all() == [b"v0", b"v1", b"v2"]


def test_producer_goes_on_with_its_sequence_after_the_logs_were_lost() -> None:
    client = TieredClient()
    client.topic()
    for number in range(8):
        client.produce("t", batch(b"p", producer_id=9, epoch=0, base_sequence=number))
    client.tick()
    assert client.sim.broker.topics.get("t").partition(0).log.tiered_end > 2
    end = client.sim.broker.topics.get("t").partition(0).log.tiered_end
    client = without_logs(client)
    client.tick()
    again = client.produce("t", batch(b"p", producer_id=9, epoch=0, base_sequence=end - 1))
    assert (again.error_code, again.base_offset) == (0, end - 1), "a duplicate, which only the tier has"
    assert client.produce("t", batch(b"p", producer_id=9, epoch=0, base_sequence=end)).base_offset == end


@for_each("kind", ["create", "append"])
@for_each("file", [".snapshot", ".log", "leader-epoch-checkpoint", "recovery-point", "log-start"])
def test_leader_goes_on_from_the_tier_when_its_full_disk_has_room_again(file: str, kind: str) -> None:
    client = tiered()
    storage = FaultyStorage(clock=client.sim.clock)
    storage.fail(kind, lambda path: file in path, number=errno.ENOSPC)
    client = without_logs(client, storage)
    client.tick()
    storage.mend()
    client.tick(3)
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 18, 18)
    client.fill(6, start=18)
    client.tick()
    assert client.read_all() == [b"v%d" % number for number in range(24)]
