from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import ClientOptions
from kqueue.schema_registry.election.election_member import ElectionMember, ElectionTimes
from kqueue.schema_registry.election.group_messages import RegistryIdentity
from kqueue.schema_registry.election.settled_leadership import SettledLeadership
from kqueue.tests.schema_registry.election.test_election_member import FakeWriter


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1) as broker:
        yield broker


def member(broker: Broker, *, is_eligible: bool = True) -> ElectionMember:
    identity = RegistryIdentity("a", 1, is_eligible)
    times = ElectionTimes(heartbeat_ms=20)
    return ElectionMember(ClientOptions(bootstrap=broker.bootstrap), "g", identity, FakeWriter(), times=times)


def test_a_request_waits_until_the_registry_has_claimed(broker: Broker) -> None:
    elected = member(broker)
    elected.start()  # it has not joined yet
    leadership = SettledLeadership(elected, 60.0)
    assert leadership.is_leader()
    assert leadership.leader_url() == "http://a:1"
    elected.close()


def test_a_request_waits_no_longer_than_the_member_runs(broker: Broker) -> None:
    follower = member(broker, is_eligible=False)
    follower.start()
    leadership = SettledLeadership(follower, 60.0)
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(leadership.is_leader()))
    thread.start()
    follower.close()
    thread.join()
    assert (answers, leadership.leader_url()) == ([False], None)


def test_only_a_few_requests_wait(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kqueue.schema_registry.election.settled_leadership.WAITING_MAX", 0)
    follower = member(broker, is_eligible=False)
    assert not SettledLeadership(follower, 60.0).is_leader()
    follower.close()
