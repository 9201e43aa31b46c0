"""Group requests that stock clients sent to Kafka 4.3, put to a kqueue whose groups are what
Kafka's were: the answers are the same.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.log import records
from kqueue.groups.log.records import CommittedOffset
from kqueue.groups.log.schemas import GroupMetadataValue, MemberMetadata
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.test_golden import ALL, Exchange, of, world

OK = 0
TRANSACTION = 1


def put(client: SimulatedClient, group_id: str, value: GroupMetadataValue) -> None:
    """Let the group be what a record says."""
    run_to_end(
        client.sim.broker.coordinators.groups.load(0, [(records.group_key(group_id), records.group_value(value))])
    )


def put_member(
    client: SimulatedClient, request: Any, generation: int, assignment: bytes = b"", protocol: str = "range"
) -> None:
    """Let the one who asks be the only member of its group."""
    member = MemberMetadata(
        member_id=request.member_id,
        group_instance_id=getattr(request, "group_instance_id", None),
        session_timeout=10_000,
        assignment=assignment,
    )
    put(
        client,
        request.group_id,
        GroupMetadataValue(protocol_type="consumer", protocol=protocol, generation=generation, members=[member]),
    )


@of("FindCoordinator")
def test_find_coordinator(exchange: Exchange) -> None:
    response = exchange.response
    coordinators = response.coordinators if exchange.version >= 4 else [response]
    client = world()
    if any(
        coordinator.error_code for coordinator in coordinators
    ):  # Kafka was still making its offsets topic; we are ready at once
        ours = client.ask(exchange.request, exchange.version)
        assert {coordinator.error_code for coordinator in (ours.coordinators if exchange.version >= 4 else [ours])} == {
            OK
        }
        return
    client.sim.broker.identity.endpoints = lambda listener: (coordinators[0].host, coordinators[0].port)
    ours = client.ask(exchange.request, exchange.version)
    assert response.error_message in ("", "NONE")
    response.error_message = ours.error_message
    assert ours == response


@of("DescribeGroups")
def test_describe_groups(exchange: Exchange) -> None:
    client = world()
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
                client,
                group.group_id,
                GroupMetadataValue(protocol_type=group.protocol_type, protocol=group.protocol_data, members=members),
            )
    ours = client.ask(exchange.request, exchange.version)
    for response in (ours, exchange.response):
        response.groups.sort(key=lambda group: group.group_id)
        for group in response.groups:
            group.error_message = group.error_message and "in our own words"
    assert ours == exchange.response


@of("OffsetFetch")
def test_offset_fetch(exchange: Exchange) -> None:
    client = world()
    several = exchange.version >= 8
    groups = exchange.response.groups if several else [exchange.response]
    for group in groups:
        for number, topic in enumerate(group.topics):
            created = client.sim.topic(topic.name or f"topic-{number}")
            if exchange.version >= 10:
                client.sim.broker.topics._by_id[topic.topic_id] = created
                created.id = topic.topic_id
            for partition in topic.partitions:
                if partition.committed_offset >= 0:
                    epoch = partition.committed_leader_epoch
                    committed = CommittedOffset(partition.committed_offset, epoch, partition.metadata or "", 0)
                    key = records.offset_key(
                        group.group_id if several else exchange.request.group_id,
                        created.name,
                        partition.partition_index,
                    )
                    run_to_end(client.sim.broker.coordinators.groups.load(0, [(key, records.offset_value(committed))]))
    assert client.ask(exchange.request, exchange.version) == exchange.response


@of("OffsetCommit")
def test_offset_commit(exchange: Exchange) -> None:
    client = world()
    for number, topic in enumerate(exchange.request.topics):
        created = client.sim.topic(
            topic.name or f"topic-{number}", 1 + max(partition.partition_index for partition in topic.partitions)
        )
        if exchange.version >= 10:
            client.sim.broker.topics._by_id[topic.topic_id] = created
    if exchange.request.generation_id_or_member_epoch >= 0:
        put_member(client, exchange.request, exchange.request.generation_id_or_member_epoch)
    ours = client.ask(exchange.request, exchange.version)
    assert {partition.error_code for topic in exchange.response.topics for partition in topic.partitions} == {OK}
    assert ours == exchange.response


@of("JoinGroup")
def test_join_group(exchange: Exchange) -> None:
    """Ids are drawn by lot, and who else is there differs; but whoever asks is given what Kafka
    gave it: an id, or a place.
    """
    client = world(group_initial_rebalance_delay_ms=0)
    request, kafkas = exchange.request, exchange.response
    if request.member_id:
        metadata = request.protocols[0].metadata
        member = MemberMetadata(member_id=request.member_id, session_timeout=10_000, subscription=metadata)
        value = GroupMetadataValue(
            protocol_type="consumer", protocol=request.protocols[0].name, leader=request.member_id, members=[member]
        )
        put(client, request.group_id, value)
    started = client.start(request, exchange.version)
    client.sim.advance(0)
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
    client = world()
    request, kafkas = exchange.request, exchange.response
    put_member(client, request, request.generation_id, kafkas.assignment, request.protocol_name or "range")
    if kafkas.error_code == OK:
        assert client.ask(request, exchange.version) == kafkas


@of("Heartbeat")
def test_heartbeat(exchange: Exchange) -> None:
    client = world(group_initial_rebalance_delay_ms=0)
    request, kafkas = exchange.request, exchange.response
    unknown, rebalancing = 25, 27
    if kafkas.error_code != unknown:
        put_member(client, request, request.generation_id)
    if kafkas.error_code == rebalancing:
        join = next(one for one in ALL if one.name == "JoinGroup" and not one.request.member_id)
        join.request.group_id = request.group_id
        join.request.protocols[0].name = "range"
        client.start(join.request, 3)
    assert client.ask(request, exchange.version) == kafkas


@of("LeaveGroup")
def test_leave_group(exchange: Exchange) -> None:
    client = world()
    request, kafkas = exchange.request, exchange.response
    asked = [(member.member_id or "somebody", member.group_instance_id) for member in request.members] or [
        (request.member_id, None)
    ]
    codes = [member.error_code for member in kafkas.members] or [kafkas.error_code]
    members = [
        MemberMetadata(member_id=member_id, group_instance_id=instance_id, session_timeout=10_000)
        for (member_id, instance_id), code in zip(asked, codes, strict=True)
        if code == OK
    ]
    put(client, request.group_id, GroupMetadataValue(protocol_type="consumer", protocol="range", members=members))
    assert client.ask(request, exchange.version) == kafkas


@of("DeleteGroups")
def test_delete_groups(exchange: Exchange) -> None:
    client = world()
    non_empty = 68
    for result in exchange.response.results:
        members = [MemberMetadata(member_id="m", session_timeout=10_000)] if result.error_code == non_empty else []
        if result.error_code in (OK, non_empty):
            put(
                client, result.group_id, GroupMetadataValue(protocol_type="consumer", protocol="range", members=members)
            )
    assert client.ask(exchange.request, exchange.version) == exchange.response
