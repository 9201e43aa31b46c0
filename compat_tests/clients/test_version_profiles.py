"""Each Kafka version that kqueue can emulate works with the client.

The client sees the API versions of that Kafka version and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kqueue
from compat_tests.clients import protocol_client
from compat_tests.clients.brokers import SETTINGS
from compat_tests.clients.scenario_helpers import collect
from kqueue.api import version_profiles

pytestmark = pytest.mark.one_client


@pytest.fixture(params=version_profiles.VERSIONS)
def profile(request: pytest.FixtureRequest) -> Iterator[kqueue.Broker]:
    if request.config.getoption("bootstrap"):
        pytest.skip("version profiles apply to kqueue only")
    with kqueue.Broker(as_version=request.param, settings=SETTINGS) as broker:
        yield broker


def test_produce_consume_commit_with_version_profile(
    profile: kqueue.Broker, connect: Any, name: Callable[[str], str]
) -> None:
    topic, group = name("topic"), name("group")
    protocol_client.create_topic(profile.bootstrap, topic, 1, {})
    producer = connect.producer(profile.bootstrap)
    for number in range(5):
        producer.send(topic, b"%d" % number, key=b"k").result()
    consumer = connect.consumer(profile.bootstrap, topic, group=group)
    assert [record.value for record in collect(consumer, 5)] == [b"%d" % number for number in range(5)]
    consumer.commit()
    assert profile.groups[group].offsets == {topic: {0: 5}}
