"""Produce with acks=all where other brokers have replicas: rules 10 to 13."""

from __future__ import annotations

import pytest

from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.harness import batch
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replication import replicate, started
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ALL = -1


@pytest.fixture
def members() -> Members:
    return started(min_isr=2)


class Produced:
    """A batch that was sent to broker 1."""

    def __init__(self, members: Members, acks: int = ALL) -> None:
        self._members = members
        partition = PartitionProduceData(index=0, records=batch(b"a"))
        data = TopicProduceData(name="t", partition_data=[partition])
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])
        self._started = MembersClient(members, 1).start(request, 12)

    @property
    def code(self) -> int | None:
        """The error code of its partition; None: not answered yet."""
        self._members.settle()
        response = self._started.response
        return None if response is None else response.responses[0].partition_responses[0].error_code


def test_acks_all_is_answered_when_all_in_sync_replicas_have_the_records(members: Members) -> None:
    produced = Produced(members)
    assert produced.code is None
    replicate(members, 2)
    assert produced.code is None
    replicate(members, 3)
    assert produced.code == ErrorCode.NONE


def test_acks_1_is_answered_by_the_append(members: Members) -> None:
    members.write(lambda old: old._replace(isr=(1,)))
    assert Produced(members, 1).code == ErrorCode.NONE


def test_rule_11_nothing_is_appended_while_too_few_are_in_sync(members: Members) -> None:
    members.write(lambda old: old._replace(isr=(1,)))
    assert Produced(members).code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert members.partition(1).log_end_offset == 0


def test_rule_13_too_few_are_in_sync_while_it_waits(members: Members) -> None:
    produced = Produced(members)
    assert produced.code is None
    members.write(lambda old: old._replace(isr=(1,)))
    assert produced.code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert members.partition(1).log_end_offset == 1


def test_rule_10_another_leader_while_it_waits(members: Members) -> None:
    produced = Produced(members)
    assert produced.code is None
    members.write(lambda old: old._replace(leader=2, leader_epoch=1))
    assert produced.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
