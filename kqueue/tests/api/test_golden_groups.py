"""Group requests that stock clients sent to Kafka 4.3, put to a kqueue whose groups are what
Kafka's were: the answers are the same.
"""

from __future__ import annotations

from typing import Any

from kqueue.groups import records
from kqueue.groups.records import CommittedOffset
from kqueue.groups.schemas import GroupMetadataValue, MemberMetadata
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.test_golden import ALL, Exchange, of, world

OK = 0
TRANSACTION = 1


def put(asker: SimulatedClient, group_id: str, value: GroupMetadataValue) -> None:
    """Let the group be what a record says."""
    asker.sim.broker.groups.load(0, [(records.group_key(group_id), records.group_value(value))])


def put_member(
    asker: SimulatedClient, request: Any, generation: int, assignment: bytes = b"", protocol: str = "range"
) -> None:
    """Let the one who asks be the only member of its group."""
    member = MemberMetadata(
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        session_timeout=10_000,
        assignment=assignment,
    )
    put(
        asker,
        request.group_id,
        GroupMetadataValue(protocol_type="consumer", protocol=protocol, generation=generation, members=[member]),
    )


@of("FindCoordinator")
def test_find_coordinator(exchange: Exchange) -> None:
    response = exchange.response
    answers = response.coordinators if exchange.version >= 4 else [response]
    asker = world()
    if exchange.request.key_type == TRANSACTION:
        ours = asker.ask(exchange.request, exchange.version)
        assert {answer.node_id for answer in (ours.coordinators if exchange.version >= 4 else [ours])} == {-1}
        return
    if any(answer.error_code for answer in answers):  # Kafka was still making its offsets topic; we are ready at once
        ours = asker.ask(exchange.request, exchange.version)
        assert {answer.error_code for answer in (ours.coordinators if exchange.version >= 4 else [ours])} == {OK}
        return
    asker.sim.broker.endpoints = lambda listener: (answers[0].host, answers[0].port)
    ours = asker.ask(exchange.request, exchange.version)
    assert response.error_message in ("", "NONE")
    response.error_message = ours.error_message
    assert ours == response


@of("DescribeGroups")
def test_describe_groups(exchange: Exchange) -> None:
    asker = world()
    for group in exchange.response.groups:
        if group.error_code == OK and group.group_state in ("Stable", "Empty"):
            members = [
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    session_timeout=10_000,
                    subscription=member.member_metadata,
                    assignment=member.member_assignment,
                )
                for member in group.members
            ]
            put(
                asker,
                group.group_id,
                GroupMetadataValue(protocol_type=group.protocol_type, protocol=group.protocol_data, members=members),
            )
    ours = asker.ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        response.groups.sort(key=lambda group: group.group_id)
        for group in response.groups:
            group.error_message = group.error_message and "in our own words"
    assert ours == exchange.response


@of("OffsetFetch")
def test_offset_fetch(exchange: Exchange) -> None:
    asker = world()
    several = exchange.version >= 8
    groups = exchange.response.groups if several else [exchange.response]
    for group in groups:
        for number, topic in enumerate(group.topics):
            made = asker.sim.topic(topic.name or f"topic-{number}")
            if exchange.version >= 10:
                asker.sim.broker.topics._by_id[topic.topic_id] = made
                made.id = topic.topic_id
            for one in topic.partitions:
                if one.committed_offset >= 0:
                    epoch = one.committed_leader_epoch
                    committed = CommittedOffset(one.committed_offset, epoch, one.metadata or "", 0)
                    key = records.offset_key(
                        group.group_id if several else exchange.request.group_id, made.name, one.partition_index
                    )
                    asker.sim.broker.groups.load(0, [(key, records.offset_value(committed))])
    assert asker.ask(exchange.request, exchange.version) == exchange.response


@of("OffsetCommit")
def test_offset_commit(exchange: Exchange) -> None:
    asker = world()
    for number, topic in enumerate(exchange.request.topics):
        made = asker.sim.topic(
            topic.name or f"topic-{number}", 1 + max(one.partition_index for one in topic.partitions)
        )
        if exchange.version >= 10:
            asker.sim.broker.topics._by_id[topic.topic_id] = made
    if exchange.request.generation_id_or_member_epoch >= 0:
        put_member(asker, exchange.request, exchange.request.generation_id_or_member_epoch)
    ours = asker.ask(exchange.request, exchange.version)
    assert {one.error_code for topic in exchange.response.topics for one in topic.partitions} == {OK}
    assert ours == exchange.response


@of("JoinGroup")
def test_join_group(exchange: Exchange) -> None:
    """Ids are drawn by lot, and who else is there differs; but whoever asks is given what Kafka
    gave it: an id, or a place.
    """
    asker = world(group_initial_rebalance_delay_ms=0)
    request, kafkas = exchange.request, exchange.response
    if request.member_id:
        metadata = request.protocols[0].metadata
        member = MemberMetadata(member_id=request.member_id, session_timeout=10_000, subscription=metadata)
        value = GroupMetadataValue(
            protocol_type="consumer", protocol=request.protocols[0].name, leader=request.member_id, members=[member]
        )
        put(asker, request.group_id, value)
    started = asker.start(request, exchange.version)
    asker.sim.advance(0)
    ours = started.response
    assert ours.error_code == kafkas.error_code
    assert (ours.member_id == kafkas.member_id) if request.member_id else (len(ours.member_id) == 36 + len("tester-"))
    if kafkas.error_code == OK and len(kafkas.members) == 1:
        assert (ours.protocol_type, ours.protocol_name) == (kafkas.protocol_type, kafkas.protocol_name)
        assert ours.members[0].metadata == kafkas.members[0].metadata
    elif kafkas.error_code != OK:
        ours.member_id = kafkas.member_id
        assert ours == kafkas


@of("SyncGroup")
def test_sync_group(exchange: Exchange) -> None:
    asker = world()
    request, kafkas = exchange.request, exchange.response
    put_member(asker, request, request.generation_id, kafkas.assignment, request.protocol_name or "range")
    if kafkas.error_code == OK:
        assert asker.ask(request, exchange.version) == kafkas


@of("Heartbeat")
def test_heartbeat(exchange: Exchange) -> None:
    asker = world(group_initial_rebalance_delay_ms=0)
    request, kafkas = exchange.request, exchange.response
    unknown, rebalancing = 25, 27
    if kafkas.error_code != unknown:
        put_member(asker, request, request.generation_id)
    if kafkas.error_code == rebalancing:
        join = next(one for one in ALL if one.name == "JoinGroup" and not one.request.member_id)
        join.request.group_id = request.group_id
        join.request.protocols[0].name = "range"
        asker.start(join.request, 3)
    assert asker.ask(request, exchange.version) == kafkas


@of("LeaveGroup")
def test_leave_group(exchange: Exchange) -> None:
    asker = world()
    request, kafkas = exchange.request, exchange.response
    asked = [(one.member_id or "somebody", one.group_instance_id) for one in request.members] or [
        (request.member_id, None)
    ]
    codes = [one.error_code for one in kafkas.members] or [kafkas.error_code]
    members = [
        MemberMetadata(member_id=member_id, group_instance_id=instance_id, session_timeout=10_000)
        for (member_id, instance_id), code in zip(asked, codes, strict=True)
        if code == OK
    ]
    put(asker, request.group_id, GroupMetadataValue(protocol_type="consumer", protocol="range", members=members))
    assert asker.ask(request, exchange.version) == kafkas


@of("DeleteGroups")
def test_delete_groups(exchange: Exchange) -> None:
    asker = world()
    non_empty = 68
    for result in exchange.response.results:
        members = [MemberMetadata(member_id="m", session_timeout=10_000)] if result.error_code == non_empty else []
        if result.error_code in (OK, non_empty):
            put(asker, result.group_id, GroupMetadataValue(protocol_type="consumer", protocol="range", members=members))
    assert asker.ask(exchange.request, exchange.version) == exchange.response
