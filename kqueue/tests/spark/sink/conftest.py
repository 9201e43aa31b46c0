"""A broker with a topic, ``out``, and the options of a sink that writes to it exactly once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.producer_pipeline import drop_idle_producers
from kqueue.tests.spark.sink.helpers import options_for


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    drop_idle_producers()
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        running.create_topic("out", 3)
        yield running
    drop_idle_producers()


@pytest.fixture
def options(broker: kqueue.Broker) -> SinkOptions:
    return options_for(broker, topic="out", delivery="exactly-once", stagingPartitions=2, kafka_batch_size=200)
