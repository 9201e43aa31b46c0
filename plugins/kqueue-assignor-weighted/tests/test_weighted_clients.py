"""Through a stock client."""

from __future__ import annotations

import time

from confluent_kafka import Consumer

import kqueue

DEADLINE_S = 60
SETTINGS = {
    "group.consumer.assignors": "uniform,weighted",
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
}


def test_two_members_share_a_topic_by_their_weights() -> None:
    with kqueue.Broker(settings=SETTINGS) as broker:
        broker.create_topic("orders", partitions=8)
        consumers = [
            Consumer(
                {
                    "bootstrap.servers": broker.bootstrap,
                    "group.id": "mills",
                    "group.protocol": "consumer",
                    "group.remote.assignor": "weighted",
                    "group.instance.id": instance_id,
                }
            )
            for instance_id in ("mill-1*3", "mill-2*1")
        ]
        for consumer in consumers:
            consumer.subscribe(["orders"])
        deadline = time.monotonic() + DEADLINE_S
        while (counts := [len(consumer.assignment()) for consumer in consumers]) != [6, 2]:
            assert time.monotonic() < deadline, f"{counts} partitions, not [6, 2]: {broker.groups['mills']}"
            for consumer in consumers:
                consumer.poll(0.05)
        assert broker.groups["mills"].assignor == "weighted"
        for consumer in consumers:
            consumer.close()
