from __future__ import annotations

from kqueue.broker.fetch.fetch_sessions import PartitionFetch
from kqueue.tests.broker.replication import MEMORY, started


def test_sessions_of_consumers_evict_none_of_a_follower() -> None:
    members = started({**MEMORY, "max.incremental.fetch.session.cache.slots": 1})
    sessions = members[1].broker.fetch_sessions
    follower = sessions.of_followers.open(0, 0, 2, 1)
    for offset in range(3):
        sessions.of_consumers.open(0, 0, [PartitionFetch("t", 0, offset, 1000)], by_id=False).finish()
    assert len(sessions.of_consumers) == 1
    assert sessions.of_followers.open(follower.id, 1, 2, 1) is follower
