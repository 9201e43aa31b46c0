from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidRequest
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.topics.topics import NewTopic
from kqueue.replication.registrations import NO_LEADER
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

VERSIONS = versions_of("elect_leaders")
Rows = list[tuple[str, list[tuple[int, ErrorCode]]]]


def ask(client: SimulatedClient, version: int, wanted: list[tuple[str, list[int]]] | None, kind: int = 0) -> Rows:
    topics = None if wanted is None else [TopicPartitions(topic=name, partitions=rows) for name, rows in wanted]
    request = ElectLeadersRequest(topic_partitions=topics, election_type=kind if version else 0)
    response = client.ask(request, version)
    assert response.error_code == ErrorCode.NONE
    return [
        (row.topic, [(result.partition_id, ErrorCode(result.error_code)) for result in row.partition_result])
        for row in response.replica_election_results
    ]


@for_each("version", VERSIONS)
@for_each("kind", [0, 1])
def test_no_partition_needs_an_election(version: int, kind: int) -> None:
    client = SimulatedClient()
    client.sim.topic("a", 2)
    unknown, unneeded = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ELECTION_NOT_NEEDED
    wanted = [("a", [0, 9, -1]), ("zz", [0]), ("a", [1, 1]), ("a", [])]
    assert ask(client, version, wanted, kind) == [
        ("a", [(0, unneeded), (9, unknown), (-1, unknown)]),
        ("zz", [(0, unknown)]),
        ("a", [(1, unneeded), (1, unneeded)]),
        ("a", []),
    ]


@for_each("version", VERSIONS)
def test_all_topics_have_nothing_to_elect(version: int) -> None:
    client = SimulatedClient()
    client.sim.topic("a", 2)
    client.sim.topic("b")
    assert sorted(ask(client, version, None)) == [("a", []), ("b", [])]
    assert ask(client, version, []) == []


@pytest.mark.parametrize(
    ("kind", "code"), [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
)
def test_a_partition_without_its_log_has_no_candidate(
    monkeypatch: pytest.MonkeyPatch, kind: int, code: ErrorCode
) -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    monkeypatch.setattr(Partition, "is_offline", True)
    assert ask(client, 2, [("a", [0])], kind) == [("a", [(0, code)])]


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="election type 7"):
        ask(SimulatedClient(), 2, [("a", [0])], 7)


def test_leaders_of_a_cluster_are_elected() -> None:
    members = Members(3)
    members.result(members[1].broker.topics.create(NewTopic("a", assignments=dict.fromkeys(range(4), (1, 2)))))
    members.write(lambda row: row._replace(leader=2), "a", 0)
    members.write(lambda row: row._replace(leader=2, isr=(2,)), "a", 1)
    members.write(lambda row: row._replace(leader=NO_LEADER, isr=(1,)), "a", 2)
    members.register(1, epoch=2, fenced=True)
    members.settle()
    none, unneeded = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED
    unavailable = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    client = MembersClient(members, 3)
    assert ask(client, 2, [("a", [0, 1, 2, 3])]) == [
        ("a", [(0, unavailable), (1, unavailable), (2, unavailable), (3, unneeded)])
    ]
    assert ask(client, 2, [("a", [1, 2])], 1) == [("a", [(1, unneeded), (2, none)])]
    assert [row.leader for row in members.registration("a").partitions] == [2, 2, 2, 1]
    members.register(1, epoch=3)
    members.settle()
    assert ask(client, 2, None) == [("a", [(0, none), (1, unavailable), (2, unavailable)])]
    assert [row.leader for row in members.registration("a").partitions] == [1, 2, 2, 1]
    members.register(1, epoch=4, fenced=True)
    members.register(2, epoch=4, fenced=True)
    members.write(lambda row: row._replace(leader=NO_LEADER), "a", 3)
    assert ask(client, 2, [("a", [3])], 1) == [("a", [(3, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)])]
