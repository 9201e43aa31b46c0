"""The partition of the log that keeps a group."""

from __future__ import annotations

from kqueue.base.coordinators import coordinator_partition
from kqueue.groups.log import records
from kqueue.tests.groups.support import World, commit_simple


def test_groups_lie_where_their_name_says() -> None:
    world = World()
    for number in range(20):
        commit_simple(world, group_id=f"group-{number}")
    for partition, entries in enumerate(world.log.partitions):
        assert entries
        for key, _ in entries:
            assert coordinator_partition(records.read_key(key).group, 3) == partition  # type: ignore[union-attr]
