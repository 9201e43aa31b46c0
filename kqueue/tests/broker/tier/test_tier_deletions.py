"""Which deletions go on after a failure, a restart and a change of mind."""

from __future__ import annotations

from kqueue.tests.broker.tier.test_tier_manager import alter
from kqueue.tests.broker.tier.test_tier_reads import tiered
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tier.errors import TierUnavailable


def disabled(client: TieredClient) -> None:
    client.store.error = TierUnavailable("no route")
    alter(client.sim, remote_storage_enable="false", remote_log_delete_on_disable="true")
    client.tick()


def segments(client: TieredClient) -> int:
    return len([key for key in client.objects() if "/segments/" in key])


def test_deletion_of_a_partition_goes_on_at_the_next_start() -> None:
    client = tiered()
    disabled(client)
    assert segments(client) == 9
    client.sim.stop()
    client.store.error = None
    client = TieredClient(client.store, sim=client.sim.restarted())
    client.tick()
    assert segments(client) == 0


def test_deletion_that_failed_is_cancelled_where_the_topic_is_tiered_again() -> None:
    client = tiered()
    disabled(client)
    client.store.error = None
    alter(client.sim, remote_storage_enable="true")
    client.fill(6, start=20)
    client.tick(4)
    log = client.sim.broker.topics.get("t").partition(0).log
    assert (log.start_offset, log.tiered_end) == (18, 24)
    assert client.read_all(18) == [b"v%d" % number for number in range(18, 26)]


def test_objects_of_topics_that_are_unknown_here_are_kept() -> None:
    client = tiered()
    client.store.store.put("topics/lost/AAAAAAAAAAAAAAAAAAAAAA/0/segments/x", [b"x"], 1)
    client.sim.stop()
    client = TieredClient(client.store, sim=client.sim.restarted())
    client.tick(4)
    assert any("topics/lost" in key for key in client.objects())
