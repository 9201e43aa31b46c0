from __future__ import annotations

import random

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.consumer.group import ConsumerGroup
from kqueue.groups.consumer.restore import restore
from kqueue.groups.log import consumer_records
from kqueue.groups.log.consumer_records import ConsumerGroupKey
from kqueue.groups.modern.changes import Changes
from kqueue.tests.groups.consumer.consumers import T, two_members
from kqueue.tests.groups.support import World, unlimited


def test_records_restore_a_group_in_any_order() -> None:
    world = World()
    two_members(world)
    latest = dict(world.log.records())
    found = []
    for key, value in latest.items():
        type = int.from_bytes(key[:2], "big")
        if type in consumer_records.KEYS and value is not None:
            found.append((consumer_records.read_key(type, key[2:]), value))
    for seed in range(10):
        random.Random(seed).shuffle(found)
        group = ConsumerGroup("g", unlimited())
        run_to_end(restore(group, found))
        assert group.members == world.consumer_group().members
        assert group.state.value == "Stable"
        assert group.owner(T, 3) == "n"


def test_topics_of_kafka_4_0_are_read_over() -> None:
    group = ConsumerGroup("g", unlimited())
    run_to_end(restore(group, [(ConsumerGroupKey(consumer_records.PARTITION_METADATA, "g"), b"anything")]))
    assert group.is_empty
    assert not Changes().records()
