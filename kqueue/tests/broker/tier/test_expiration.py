from __future__ import annotations

from kqueue.broker.tier.expiration import TotalRetention, expired_end
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tests.tables import for_each
from kqueue.tier.manifest import Manifest


def manifest() -> Manifest:
    """Five segments of two batches, each a second younger than the one before."""
    client = TieredClient()
    partition = client.topic().partition(0)
    for number in range(6):
        client.fill(2, start=2 * number)
        client.sim.clock.advance(1000)
    client.tick()
    return client.state(partition).manifest


NEVER = -1


def test_segments_expire_by_the_time_of_their_newest_record() -> None:
    tiered = manifest()
    begin_ms = next(tiered.segments()).max_timestamp
    for age_ms, end in ((5000, 0), (5001, 0), (6001, 2), (8001, 6), (60_000, 10)):
        assert expired_end(tiered, TotalRetention(6000, NEVER, 0, begin_ms + age_ms)) == end


@for_each("kept, end", [(5, 0), (4, 2), (1, 8), (0, 10)])
def test_segments_expire_by_size_while_enough_is_left_without_them(kept: int, end: int) -> None:
    tiered = manifest()
    size = tiered.root.size // 5
    assert expired_end(tiered, TotalRetention(NEVER, kept * size, 0, 0)) == end
    assert expired_end(tiered, TotalRetention(NEVER, kept * size + 100, 100, 0)) == end, "the local bytes count"


def test_nothing_expires_without_the_policy_delete() -> None:
    client = TieredClient()
    config = client.topic(cleanup_policy="", retention_ms="1", local_retention_ms="1").config
    assert TotalRetention.of(config, 0, 10**15) == (NEVER, NEVER, 0, 10**15)
