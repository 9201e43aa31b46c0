from __future__ import annotations

import pytest

from kqueue.base.errors import KqueueError, RecordTooLarge
from kqueue.broker.internal_topic_log import InternalTopicLog
from kqueue.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kqueue.testing.simulation import Simulation


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
def test_each_coordinator_has_its_topic(topic: str) -> None:
    sim = Simulation({"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4})
    log = InternalTopicLog(topic, 4, sim.broker.topics, sim.broker.purgatory, sim.broker.clock)
    done = list[tuple[int, KqueueError | None]]()
    for number in range(3):
        log.append(number, [(b"k", b"v")], lambda error, number=number: done.append((number, error)))
    sim.settle()
    assert done == [(0, None), (1, None), (2, None)]
    assert len(sim.broker.topics.get(topic).partitions) == log.partition_count == 4


def test_a_batch_is_no_larger_than_the_topic_allows() -> None:
    sim = Simulation({"message.max.bytes": 10_000})
    log = InternalTopicLog(TRANSACTIONS_TOPIC, 4, sim.broker.topics, sim.broker.purgatory, sim.broker.clock)
    news = list[KqueueError | None]()
    log.append(0, [(b"k", bytes(10_000))], news.append)
    sim.settle()
    assert isinstance(news[0], RecordTooLarge)
    assert "max.message.bytes of __transaction_state is 10000" in str(news[0])
