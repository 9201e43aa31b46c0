"""Requests of administration that are put to Kafka and to kqueue, whose answers must be the same.

A scenario is a function that sends requests with `ask(request, version)` and yields the answers. A
broker of its own, or topics of its own, are all that it may lean on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compat_tests.waits import eventually_equal, look_until
from kqueue.records.builder import BatchBuilder
from kqueue.wire.messages import alter_partition_reassignments as reassign
from kqueue.wire.messages import create_partitions as grow
from kqueue.wire.messages import create_topics as create
from kqueue.wire.messages import (
    delete_groups,
    delete_records,
    describe_cluster,
    describe_groups,
    describe_quorum,
    offset_commit,
)
from kqueue.wire.messages import delete_topics as delete
from kqueue.wire.messages import describe_log_dirs as log_dirs
from kqueue.wire.messages import describe_topic_partitions as describe
from kqueue.wire.messages import elect_leaders as elect
from kqueue.wire.messages import list_partition_reassignments as moves
from kqueue.wire.messages import update_features as features
from kqueue.wire.messages.find_coordinator import FindCoordinatorRequest
from kqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kqueue.wire.messages.unregister_broker import UnregisterBrokerRequest

Ask = Callable[[Any, int], Any]
Scenario = Callable[[Ask], Iterator[Any]]
NODE = 1
"""The id of both brokers."""
GROUP_ID_NOT_FOUND = 69
UNKNOWN_ID = b"\x07" * 16


def topic(
    name: str, count: int = -1, factor: int = -1, assigned: Sequence[tuple[int, list[int]]] = (), **configs: str | None
) -> create.CreatableTopic:
    """A topic to create; names of settings have underscores for dots."""
    return create.CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=[
            create.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in assigned
        ],
        configs=[
            create.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def created(ask: Ask, *topics: create.CreatableTopic, version: int = 7, validate: bool = False) -> Any:
    """The answer to CreateTopics, sorted."""
    request = create.CreateTopicsRequest(topics=list(topics), validate_only=validate, timeout_ms=20_000)
    answer = ask(request, version)
    answer.topics.sort(key=lambda row: row.name)
    if validate:  # Kafka returns an id that no topic gets
        for row in answer.topics:
            row.topic_id = bytes(16)
    return answer


def creating_topics(ask: Ask) -> Iterator[Any]:
    """Counts, factors, assignments, settings, names, repetitions."""
    for version in range(2, 8):
        yield created(ask, topic(f"c-{version}", 2, 1), version=version)
        yield created(ask, topic(f"c-{version}", 2, 1), version=version)  # exists
        yield created(ask, topic(f"c-{version}-v", 2, 1), version=version, validate=True)
        yield created(ask, topic(f"c-{version}-d"), version=version)  # defaults, also before version 4
        yield created(ask, topic(f"c-{version}-0", 0, 1), topic(f"c-{version}-00", 1, 0), version=version)
    for validate in (True, False):
        for one in (
            topic("c-counts", -2, 1),
            topic("c-factor", 1, -2),
            topic("c-factor", 1, 2),
            topic("c-factor", 1, 32767),
            topic("c-both", 1, 1, [(0, [NODE])]),
            topic("c-both", -1, 1, [(0, [NODE])]),
            topic("c-both", 1, -1, [(0, [NODE])]),
            topic("c-gap", -1, -1, [(1, [NODE])]),
            topic("c-gap", -1, -1, [(0, [NODE]), (2, [NODE])]),
            topic("c-negative", -1, -1, [(-1, [NODE])]),
            topic("c-twice", -1, -1, [(0, [NODE]), (0, [NODE])]),
            topic("c-unknown", -1, -1, [(0, [NODE + 1])]),
            topic("c-uneven", -1, -1, [(0, [NODE]), (1, [NODE, NODE + 1])]),
            topic("c-empty", -1, -1, [(0, [])]),
            topic("c-same", -1, -1, [(0, [NODE, NODE])]),
            topic("c-config", 1, 1, no_such_setting="1"),
            topic("c-config", 1, 1, retention_ms="x"),
            topic("c-config", 1, 1, retention_ms=None),
            topic("c-config", 1, 1, retention_ms="-2"),
            topic("c-config", 1, 1, cleanup_policy="sweep"),
            topic("c-config", 1, 1, segment_bytes=""),
            topic("c-config", 1, 1, max_message_bytes="-1"),
            topic("", 1, 1),
            topic(".", 1, 1),
            topic("..", 1, 1),
            topic("a b", 1, 1),
            topic("ä", 1, 1),
            topic("x" * 250, 1, 1),
            topic("c_2", 1, 1),
            topic("c.2", 1, 1),
        ):
            yield created(ask, one, validate=validate)
    yield created(ask, topic("c-ok", -1, -1, [(1, [NODE]), (0, [NODE])], retention_ms="5000"))
    yield created(ask, topic("c-x249" + "x" * 243, 1, 1))
    yield created(ask, topic("c-dup", 1, 1), topic("c-dup", 1, 1), topic("c-one", 1, 1))
    yield created(ask, topic("c-list", 1, 1, cleanup_policy="compact,delete", compression_type="zstd"))
    yield created(ask)


def adding_partitions(ask: Ask) -> Iterator[Any]:
    """Counts, assignments, unknown topics, repetitions."""
    created(ask, topic("p", 2, 1), topic("q", 1, 1))

    def grown(*rows: tuple[str, int, list[list[int]] | None], version: int = 3, validate: bool = False) -> Any:
        topics = [
            grow.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if assigned is None
                else [grow.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned],
            )
            for name, count, assigned in rows
        ]
        answer = ask(grow.CreatePartitionsRequest(topics=topics, timeout_ms=20_000, validate_only=validate), version)
        answer.results.sort(key=lambda row: row.name)
        return answer

    for validate in (True, False):
        for row in (
            ("p", 2, None),
            ("p", 1, None),
            ("p", 0, None),
            ("p", -1, None),
            ("p", 3, []),
            ("p", 3, [[NODE + 1]]),
            ("p", 3, [[NODE, NODE]]),
            ("p", 3, [[]]),
            ("p", 3, [[NODE], [NODE]]),
            ("p", 4, [[NODE]]),
            ("p", 4, [[NODE], [NODE, NODE + 1]]),
            ("nobody", 3, None),
            ("", 3, None),
            ("..", 3, None),
        ):
            yield grown(row, validate=validate)
    for version in range(4):
        yield grown(("p", 3 + version, None), version=version, validate=True)
        yield grown(("p", 3 + version, [[NODE]]), version=version)
    yield grown(("q", 3, None), ("q", 4, None), ("p", 9, None))
    yield grown()


def deleting_topics(ask: Ask) -> Iterator[Any]:
    """By name and by id, unknown ones, repetitions."""
    for version in range(1, 7):
        created(ask, topic(f"d-{version}", 1, 1))
        yield deleted(ask, [f"d-{version}", "nobody"], version)
    ids = {row.name: row.topic_id for row in created(ask, *(topic(f"d-{n}", 1, 1) for n in "abcdef")).topics}
    state = delete.DeleteTopicState
    for states in (
        [state(name=None, topic_id=ids["d-a"])],
        [state(name=None, topic_id=ids["d-a"])],
        [state(name=None, topic_id=UNKNOWN_ID)],
        [state(name=None)],
        [state(name="d-b", topic_id=ids["d-b"])],
        [state(name="d-b", topic_id=ids["d-c"])],
        [state(name="d-c"), state(name="d-c")],
        [state(name="d-c"), state(name=None, topic_id=ids["d-c"])],
        [state(name=None, topic_id=ids["d-d"]), state(name=None, topic_id=ids["d-d"]), state(name="d-e")],
        [state(name=""), state(name="..")],
        [],
    ):
        yield deleted(ask, states, 6)
    yield deleted(ask, ["d-f", "d-f"], 5)
    yield deleted(ask, ["d-f"], 5)


def deleted(ask: Ask, wanted: Sequence[Any], version: int) -> Any:
    """The answer to DeleteTopics for names or states, sorted."""
    states = [delete.DeleteTopicState(name=one) if isinstance(one, str) else one for one in wanted]
    request = delete.DeleteTopicsRequest(timeout_ms=20_000)
    if version >= 6:
        request.topics = states
    else:
        request.topic_names = list(wanted)
    answer = ask(request, version)
    answer.responses.sort(key=lambda row: (row.name or "", row.error_code))
    return answer


def deleting_records(ask: Ask) -> Iterator[Any]:
    """Offsets within and outside of the log, the high watermark, unknown partitions."""
    created(ask, topic("r", 2, 1), topic("r-compact", 1, 1, cleanup_policy="compact"))
    for name in ("r", "r-compact"):
        produce(ask, name, 10)
    for version in range(3):
        for name, index, offset in (
            ("r", 0, 2 + version),
            ("r", 0, 1),
            ("r", 0, 11),
            ("r", 0, -2),
            ("r", 1, -1),
            ("r", 1, 1),
            ("r", 2, 0),
            ("r", -1, 0),
            ("nobody", 0, 0),
            ("r-compact", 0, 1),
        ):
            yield records_deleted(ask, [(name, [(index, offset)])], version)
    yield records_deleted(ask, [("r", [(0, 5), (1, 0), (9, 0)]), ("nobody", [(0, 0)])], 2)
    yield records_deleted(ask, [("r", [(0, -1)])], 2)
    yield records_deleted(ask, [("r", [(0, 0)])], 2)
    yield records_deleted(ask, [("r", [])], 2)
    yield records_deleted(ask, [], 2)


def records_deleted(ask: Ask, wanted: Sequence[tuple[str, Sequence[tuple[int, int]]]], version: int) -> Any:
    """The answer to DeleteRecords, sorted."""
    topics = [
        delete_records.DeleteRecordsTopic(
            name=name,
            partitions=[delete_records.DeleteRecordsPartition(partition_index=index, offset=at) for index, at in rows],
        )
        for name, rows in wanted
    ]
    answer = ask(delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=20_000), version)
    answer.topics.sort(key=lambda row: row.name)
    for row in answer.topics:
        row.partitions.sort(key=lambda partition: partition.partition_index)
    return answer


def produce(ask: Ask, name: str, count: int) -> None:
    """Append `count` records to partition 0."""
    builder = BatchBuilder()
    for number in range(count):
        builder.append(1_700_000_000_000 + number, b"k%d" % number, b"v")
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    request = ProduceRequest(
        acks=-1, timeout_ms=20_000, topic_data=[TopicProduceData(name=name, partition_data=[data])]
    )
    # Kafka's leaders are there a moment after the topic
    look_until(
        lambda: ask(request, 9).responses[0].partition_responses[0].error_code, lambda code: code == 0, f"{name} leads"
    )


def describing_log_dirs(ask: Ask) -> Iterator[Any]:
    """Partitions by name; unknown ones."""
    created(ask, topic("l", 2, 1))
    produce(ask, "l", 10)
    for version in range(1, 6):
        for wanted in ([("l", [0, 1])], [("l", [0]), ("nobody", [0])], [("l", [7])], [("l", [])], []):
            topics = [log_dirs.DescribableLogDirTopic(topic=name, partitions=rows) for name, rows in wanted]
            answer = ask(log_dirs.DescribeLogDirsRequest(topics=topics), version)
            for folder in answer.results:
                folder.log_dir = "a folder"
                folder.total_bytes, folder.usable_bytes = folder.total_bytes > 0, folder.usable_bytes > 0
                for row in folder.topics:
                    row.partitions.sort(key=lambda partition: partition.partition_index)
            yield answer


def groups(ask: Ask) -> Iterator[Any]:
    """Groups that are unknown, and one that has offsets and no members."""
    created(ask, topic("g", 1, 1))
    await_coordinator(ask)
    commit = offset_commit.OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="g",
                partitions=[offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)],
            )
        ],
    )
    yield ask(commit, 8)
    for version in range(7):
        request = describe_groups.DescribeGroupsRequest(groups=["nobody", "", "g"])
        if version >= 3:
            request.include_authorized_operations = True
        answer = ask(request, version)
        answer.groups.sort(key=lambda row: row.group_id)
        yield answer
        yield ask(describe_groups.DescribeGroupsRequest(groups=[]), version)
    for version in range(3):
        for names in (["nobody"], [""], [], ["nobody", "nobody"]):
            yield ask(delete_groups.DeleteGroupsRequest(groups_names=names), version)
    for _ in range(2):
        yield ask(delete_groups.DeleteGroupsRequest(groups_names=["g"]), 2)


def await_coordinator(ask: Ask) -> None:
    """Return once groups are served; Kafka creates their topic first."""

    def codes() -> tuple[int, int]:
        coordinator = ask(FindCoordinatorRequest(key="g"), 3)
        described = ask(describe_groups.DescribeGroupsRequest(groups=["nobody"]), 6).groups[0]
        return coordinator.error_code, described.error_code

    eventually_equal(codes, (0, GROUP_ID_NOT_FOUND), "the codes of a coordinator that is there")


def describing_topic_partitions(ask: Ask) -> Iterator[Any]:
    """Pages, cursors, unknown and invalid names."""
    for name in ("t1", "t2", "u1"):
        created(ask, topic(name, 3, 1))
    newest = describe.DescribeTopicPartitionsRequest(topics=[describe.TopicRequest(name="u1")])
    # a Kafka describes a new topic a moment after its creation
    look_until(lambda: ask(newest, 0).topics[0].error_code, lambda code: code == 0, "a description of u1")
    for names, limit, cursor in (
        (["u1", "t1", "t1"], 2000, None),
        (["zzz", "u1", ".."], 2000, None),
        (["t1", "u1"], 2, None),
        (["t1", "u1"], 3, None),
        (["t1", "u1"], 4, None),
        (["t1", "u1"], 4, ("t1", 2)),
        (["t1", "u1"], 4, ("t1", 99)),
        (["t1", "u1"], 4, ("t2", 1)),
        (["t1", "u1"], 4, ("", 0)),
        (["t1"], 4, ("t1", -1)),
        (["t1", "ta", "u1"], 3, None),
        (["t1", "ta", "u1"], 4, None),
        (["t1"], 0, None),
        (["t1"], -1, None),
        (["ta", "tb"], 1, None),
        (["t1", "zz"], 9, ("zz", 5)),
        ([], 1, ("t1", 2)),
        ([], 9, ("t15", 1)),
        ([], 9, ("zzz", 1)),
        ([], 9, ("t1", -1)),
    ):
        request = describe.DescribeTopicPartitionsRequest(
            topics=[describe.TopicRequest(name=name) for name in names], response_partition_limit=limit
        )
        if cursor is not None:
            request.cursor = describe.Cursor(topic_name=cursor[0], partition_index=cursor[1])
        yield ask(request, 0)


def leaders_and_moves(ask: Ask) -> Iterator[Any]:
    """ElectLeaders and reassignments of partitions that are where they can be."""
    created(ask, topic("e", 3, 1))
    rows = elect.TopicPartitions
    for version in range(3):
        for kind in (0, 1, 7) if version else (0,):
            for wanted in ([("e", [0, 9, -1]), ("nobody", [0]), ("e", [0, 0]), ("e", [])], []):
                request = elect.ElectLeadersRequest(
                    topic_partitions=[rows(topic=name, partitions=indexes) for name, indexes in wanted]
                )
                if version:
                    request.election_type = kind
                yield ask(request, version)
    everything = ask(elect.ElectLeadersRequest(topic_partitions=None), 2)
    yield [row.partition_result for row in everything.replica_election_results if row.topic == "e"]
    for version in range(2):
        for replicas in ([NODE], [NODE + 1], [NODE, NODE + 1], [NODE, NODE], [], [-1], None):
            partitions = [
                reassign.ReassignablePartition(partition_index=index, replicas=replicas) for index in (0, 9, 0)
            ]
            topics = [reassign.ReassignableTopic(name=name, partitions=partitions) for name in ("e", "nobody")]
            yield ask(reassign.AlterPartitionReassignmentsRequest(topics=topics), version)
    for wanted in (None, [], [("e", [0])], [("nobody", [0])], [("e", [9])]):
        named = wanted and [
            moves.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in wanted
        ]
        yield ask(moves.ListPartitionReassignmentsRequest(topics=named), 0)


def cluster(ask: Ask) -> Iterator[Any]:
    """DescribeCluster, DescribeQuorum, brokers that do not exist."""
    for version in range(3):
        for kind in (0, 1, 2, 3) if version else (1,):
            request = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
            if version:
                request.endpoint_type = kind
            if version >= 2:
                request.include_fenced_brokers = True
            answer = ask(request, version)
            answer.cluster_id = len(answer.cluster_id)
            for broker in answer.brokers:
                broker.port = 9092
            yield answer
    metadata = "__cluster_metadata"
    for version in range(3):
        for wanted in ([], [("x", [0])], [(metadata, [1])], [(metadata, [0, 1])], [(metadata, [0]), ("x", [0])]):
            topics = [
                describe_quorum.TopicDataInRequest(
                    topic_name=name,
                    partitions=[describe_quorum.PartitionDataInRequest(partition_index=index) for index in indexes],
                )
                for name, indexes in wanted
            ]
            yield ask(describe_quorum.DescribeQuorumRequest(topics=topics), version)
    for broker_id in (2, 0, -1):
        yield ask(UnregisterBrokerRequest(broker_id=broker_id), 0)


def changing_features(ask: Ask) -> Iterator[Any]:
    """Levels up and down, their bounds, unknown features; the levels are as before at the end."""
    name = "transaction.version"
    for version, rows in (
        (2, [(name, 2, 1)]),
        (2, [(name, 1, 1)]),
        (2, [(name, 1, 2)]),
        (2, [(name, 2, 2)]),
        (2, [(name, 2, 3)]),
        (2, [(name, 5, 1)]),
        (2, [(name, -1, 1)]),
        (2, [(name, 0, 3)]),
        (2, [(name, 0, 1)]),
        (2, [(name, 1, 0)]),
        (2, [(name, 1, 9)]),
        (1, [(name, 1, 1), (name, 2, 1)]),
        (2, [(name, 1, 2), ("nope", 1, 1)]),
        (2, [("nope", 0, 2)]),
        (2, [("metadata.version", 30, 1)]),
        (2, [("metadata.version", 31, 1)]),
        (2, [("metadata.version", 29, 1)]),
        (2, [("metadata.version", 29, 2)]),
        (2, [("metadata.version", 7, 3)]),
        (2, [("metadata.version", 0, 3)]),
        (1, []),
        (0, [(name, 2, 1)]),
        (0, [(name, 1, 2)]),
        (2, [(name, 2, 1)]),
    ):
        updates = [
            features.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
            if version
            else features.FeatureUpdateKey(feature=feature, max_version_level=level, allow_downgrade=kind != 1)
            for feature, level, kind in rows
        ]
        yield ask(features.UpdateFeaturesRequest(feature_updates=updates), version)


def naming_topics(ask: Ask) -> Iterator[Any]:
    """Metadata of names that are no topic's."""
    for name in ("nobody", "", "..", "a b"):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        yield ask(request, 12).topics


SCENARIOS: Sequence[Scenario] = (
    creating_topics,
    adding_partitions,
    deleting_topics,
    deleting_records,
    describing_log_dirs,
    groups,
    describing_topic_partitions,
    leaders_and_moves,
    cluster,
    changing_features,
    naming_topics,
)
