"""The leader of a partition: fetches of followers, high watermark, in-sync set."""

from kqueue.replication.leader_replica import LeaderReplica, ReplicaFetch
from kqueue.replication.registrations import PartitionRegistration


def test_the_high_watermark_waits_for_all_in_sync() -> None:
    leader = LeaderReplica(1, PartitionRegistration((1, 2, 3), (1, 2, 3), 1, 5), leo=10, high_watermark=4, now_ms=0)
    assert not leader.advance(10, 2)
    for node in (2, 3):
        assert leader.fetched(ReplicaFetch(node, 1, 5, 6 + node, 5), lambda epoch: (epoch, 10), 10, 1) is None
    assert leader.advance(10, 2)
    assert leader.high_watermark == 8
