from __future__ import annotations

import pytest

from kqueue.groups.streams.topology import InternalTopic
from kqueue.tests.api.harness import SimulatedClient


def test_topics_are_created_once_with_their_settings(caplog: pytest.LogCaptureFixture) -> None:
    sim = SimulatedClient().sim
    broker = sim.broker
    wanted = [InternalTopic("a", 3, 1, (("cleanup.policy", "compact"),)), InternalTopic("b", 1)]
    for _ in range(2):
        broker.coordinators.streams_topics.create("g", wanted)
        sim.settle()
    assert [len(broker.topics.get(name).partitions) for name in "ab"] == [3, 1]
    assert broker.topics.get("a").config.overrides == {"cleanup.policy": ["compact"]}
    assert broker.coordinators.streams_topics.failures(wanted) == []
    assert not caplog.records


def test_a_failure_is_logged_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    sim = SimulatedClient().sim
    broker = sim.broker
    bad, good = InternalTopic("a", 3, 0, (("cleanup.policy", "burn"),)), InternalTopic("b", 1)
    for _ in range(3):
        broker.coordinators.streams_topics.create("g", [bad, good])
        sim.settle()
    assert len(caplog.records) == 1
    (failure,) = broker.coordinators.streams_topics.failures([bad, good])
    assert failure.startswith("a: ")
    broker.coordinators.streams_topics.create("g", [bad._replace(configs=())])
    sim.settle()
    assert broker.coordinators.streams_topics.failures([bad]) == []
    assert broker.topics.find("a") is not None
