from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import Client, GroupProtocol, JoinedGroup
from kqueue.client.errors import BrokerRefused

PROTOCOL = GroupProtocol("g", "sr", "v0", b"mine", 10_000, 10_000)


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1) as broker:
        yield broker


def joined(client: Client, member_id: str = "") -> JoinedGroup:
    first = client.membership.join(PROTOCOL, member_id)
    return first if first.generation > 0 else client.membership.join(PROTOCOL, first.member_id)


def test_a_member_joins_gets_its_assignment_and_leaves(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client:
        member = joined(client)
        assert (member.is_leader, member.members) == (True, {member.member_id: b"mine"})
        assert client.membership.sync(PROTOCOL, member, {member.member_id: b"assigned"}) == b"assigned"
        client.membership.heartbeat("g", member.member_id, member.generation)
        with pytest.raises(BrokerRefused, match="ILLEGAL_GENERATION"):
            client.membership.heartbeat("g", member.member_id, member.generation + 1)
        for _ in range(2):
            client.membership.leave("g", member.member_id)
        with pytest.raises(BrokerRefused, match="UNKNOWN_MEMBER_ID"):
            client.membership.heartbeat("g", member.member_id, member.generation)


def test_a_join_waits_for_the_other_members(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client, Client(broker.bootstrap) as other:
        first = joined(client)
        client.membership.sync(PROTOCOL, first, {first.member_id: b""})
        second: list[JoinedGroup] = []
        thread = threading.Thread(target=lambda: second.append(joined(other)))
        thread.start()
        while True:  # until the other one has begun to join
            try:
                client.membership.heartbeat("g", first.member_id, first.generation)
            except BrokerRefused as error:
                assert error.code_name == "REBALANCE_IN_PROGRESS"  # noqa: PT017
                break
        again = joined(client, first.member_id)
        thread.join()
        assert again.generation == second[0].generation > first.generation
        leaders = [member for member in (again, second[0]) if member.is_leader]
        assert [sorted(member.members) for member in leaders] == [sorted([again.member_id, second[0].member_id])]
