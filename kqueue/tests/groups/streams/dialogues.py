"""Dialogues of members of streams groups with a broker: the same heartbeats to Kafka and to kqueue
have the same answers.

What Kafka 4.3 answered is in `tests/data/streams_group_dialogues.json`;
``python -m compat_tests.kafka.record_dialogues`` records it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kqueue.tests.groups.consumer.dialogues import Answer, Broker
from kqueue.wire.messages.delete_groups import DeleteGroupsRequest
from kqueue.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kqueue.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kqueue.wire.messages.list_groups import ListGroupsRequest
from kqueue.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kqueue.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kqueue.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    Status,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

RECORDED = Path(__file__).parents[2] / "data" / "streams_group_dialogues.json"
SETTINGS = {
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.heartbeat.interval.ms": 1000,
    "group.streams.min.session.timeout.ms": 500,
    "group.streams.session.timeout.ms": 3000,
    "group.streams.assignment.interval.ms": 600,
    "group.streams.initial.rebalance.delay.ms": 500,
    "group.streams.max.size": 3,
}
"""Of the broker. The tests know when the next assignment is due."""
INTERVAL_MS = 800
SESSION_MS = 4500
GROUP_RESOURCE = 32
Tasks = dict[str, list[int]]


def internal(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    return TopicInfo(
        name=name,
        partitions=partitions,
        topic_configs=[KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def reading(*names: str) -> Topology:
    """One subtopology without state."""
    return Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=list(names))])


class StreamsDialogue:
    """Requests of members of one group; each returns its answer in plain values."""

    def __init__(self, broker: Broker, group_id: str) -> None:
        self.broker = broker
        self.group_id = group_id

    def send(
        self,
        member_id: str,
        epoch: int,
        active: Tasks | None = None,
        standby: Tasks | None = None,
        **fields: Any,
    ) -> Answer:
        """Send a heartbeat; it names no tasks unless some are given."""
        given: dict[str, Any] = {"endpoint_information_epoch": 0}
        if active is not None or standby is not None:
            given |= {"active_tasks": task_ids(active), "standby_tasks": task_ids(standby), "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(
            **{"group_id": self.group_id, "member_id": member_id, "member_epoch": epoch, **given, **fields}
        )
        response = self.broker.ask(request, 0)
        endpoints = response.partitions_by_user_endpoint
        statuses = response.status
        return [
            response.error_code,
            response.error_message,
            response.member_id,
            response.member_epoch,
            response.heartbeat_interval_ms,
            response.acceptable_recovery_lag,
            response.task_offset_interval_ms,
            statuses and [status_values(status) for status in statuses],
            plain(response.active_tasks),
            plain(response.standby_tasks),
            plain(response.warmup_tasks),
            response.endpoint_information_epoch,
            endpoints
            and sorted(
                [
                    each.user_endpoint.host,
                    each.user_endpoint.port,
                    sorted([one.topic, sorted(one.partitions)] for one in each.active_partitions),
                    sorted([one.topic, sorted(one.partitions)] for one in each.standby_partitions),
                ]
                for each in endpoints
            ),
        ]

    def join(self, member_id: str, topology: Topology | None, **fields: Any) -> Answer:
        """Send the first heartbeat."""
        given = {"active": {}, "rebalance_timeout_ms": 60_000, "process_id": f"p-{member_id}", "topology": topology}
        return self.send(member_id, 0, **{**given, **fields})

    def describe(self) -> Answer:
        """Describe the group."""
        (group,) = self.broker.ask(StreamsGroupDescribeRequest(group_ids=[self.group_id]), 0).groups
        topology = group.topology and [
            group.topology.epoch,
            [
                [
                    one.subtopology_id,
                    one.source_topics,
                    one.repartition_sink_topics,
                    [topic_values(topic) for topic in one.state_changelog_topics],
                    [topic_values(topic) for topic in one.repartition_source_topics],
                ]
                for one in group.topology.subtopologies
            ],
        ]
        members = [
            [
                member.member_id,
                member.member_epoch,
                member.instance_id,
                member.rack_id,
                member.topology_epoch,
                member.process_id,
                member.user_endpoint and [member.user_endpoint.host, member.user_endpoint.port],
                sorted([tag.key, tag.value] for tag in member.client_tags),
                [plain(getattr(member.assignment, f"{role}_tasks")) for role in ("active", "standby", "warmup")],
                [plain(getattr(member.target_assignment, f"{role}_tasks")) for role in ("active", "standby", "warmup")],
                member.is_classic,
            ]
            for member in sorted(group.members, key=lambda member: str(member.member_id))
        ]
        state = [group.error_code, group.error_message, group.group_state, group.group_epoch, group.assignment_epoch]
        return [*state, topology, members]

    def listed(self) -> Answer:
        """List the group."""
        groups = self.broker.ask(ListGroupsRequest(), 5).groups
        return [
            [group.protocol_type, group.group_state, group.group_type]
            for group in groups
            if group.group_id == self.group_id
        ]

    def delete(self) -> Answer:
        """Delete the group."""
        (result,) = self.broker.ask(DeleteGroupsRequest(groups_names=[self.group_id]), 2).results
        return result.error_code

    def commit(self, member_id: str, epoch: int, topic: str, partition: int) -> Answer:
        """Commit offset 0."""
        one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=0)
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[one])],
        )
        (answer,) = self.broker.ask(request, 9).topics
        return [partition.error_code for partition in answer.partitions]

    def configure(self, **settings: str) -> Answer:
        """Set settings of the group."""
        configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=self.group_id, configs=configs)
        responses = self.broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return [one.error_code for one in responses]

    def partitions(self, *names: str) -> Answer:
        """Return how many partitions topics have; -1: there is none."""
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in sorted(names)])
        topics = self.broker.ask(request, 0).topics
        return [[topic.name, len(topic.partitions) if not topic.error_code else -1] for topic in topics]

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.broker.wait(ms)


def status_values(status: Status) -> list[Any]:
    """The order in which Kafka names missing topics is that of a hash map."""
    names = sorted(status.status_detail.partition(": ")[2].split(", "))
    detail = status.status_detail.partition(": ")[0]
    return [status.status_code, detail, names]


def task_ids(tasks: Tasks | None) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=indexes) for one, indexes in (tasks or {}).items()]


def plain(tasks: list[TaskIds] | None) -> Any:
    return None if tasks is None else sorted([each.subtopology_id, sorted(each.partitions)] for each in tasks)


def topic_values(topic: TopicInfo) -> list[Any]:
    configs = [[each.key, each.value] for each in topic.topic_configs]
    return [topic.name, topic.partitions, topic.replication_factor, configs]


def requests_that_are_wrong(say: StreamsDialogue) -> Iterator[Answer]:
    """The fields that a heartbeat must have."""
    yield say.describe()
    yield say.send("m", 1)
    yield say.send("m", -1)
    yield say.send("m", -3)
    yield say.send("m", -2)
    yield say.send("", 1)
    yield say.join("", reading("t"))
    yield say.send("m", 0, group_id="")
    yield say.join("m", None)
    yield say.join("m", reading("t"), active={"0": [1]})
    yield say.join("m", reading("t"), standby={"0": [1]})
    yield say.join("m", reading("t"), rebalance_timeout_ms=-1)
    yield say.join("m", reading("t"), rack_id="")
    yield say.join("m", reading("t"), instance_id="i")
    yield say.join("m", reading("t"), instance_id="")
    yield say.join("m", reading("t"), task_offsets=[TaskOffset(subtopology_id="0")])
    yield say.join("m", reading("t"), task_end_offsets=[])
    yield say.join("m", reading("t"), warmup_tasks=[TaskIds(subtopology_id="0", partitions=[1])])
    yield say.join("m", reading("t"), warmup_tasks=None)
    yield say.join("m", Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["t.*"])]))
    yield say.join(
        "m",
        Topology(
            subtopologies=[
                Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=[internal("c", 3)])
            ]
        ),
    )
    yield say.send("m", 1, topology=reading("t"))
    yield say.listed()
    for member_id in "abc":
        yield say.join(member_id, reading("t"))
    yield say.join("d", reading("t"))
    say.wait(INTERVAL_MS)
    yield say.send("a", 9)
    yield say.send("a", 0)
    yield say.send("d", 2)
    yield say.send("a", 1, {"7": [0]})
    yield say.send("a", 1, {"0": [9]})
    yield say.send("d", -1)
    yield say.delete()


def one_member(say: StreamsDialogue) -> Iterator[Answer]:
    """Joining, staying, coming back, leaving."""
    yield say.join("m", reading("t"), rack_id="r", client_tags=[KeyValue(key="k", value="v")])
    yield say.describe()
    yield say.listed()
    yield say.send("m", 1)
    say.wait(INTERVAL_MS)
    yield say.send("m", 1)
    yield say.send("m", 2)
    yield say.send("m", 1)
    yield say.send("m", 1, {"0": [1]})
    yield say.describe()
    yield say.join("m", reading("t"))
    say.wait(INTERVAL_MS)
    yield say.describe()
    yield say.send("m", -1)
    yield say.describe()
    yield say.listed()
    yield say.join("n", reading("t"))
    say.wait(INTERVAL_MS)
    yield say.send("n", 2)
    yield say.describe()
    yield say.send("n", -1)
    yield say.delete()
    yield say.describe()


def members_that_share(say: StreamsDialogue) -> Iterator[Answer]:
    """Revocation and its confirmation, lost answers, leaving."""
    yield say.join("m1", reading("t"))
    say.wait(INTERVAL_MS)
    yield say.send("m1", 1)
    yield say.join("m2", reading("t"))
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m2", 2)
    yield say.describe()
    yield say.send("m1", 2)
    yield say.send("m1", 2, {"0": [0, 1, 2, 3]})
    yield say.describe()
    yield say.send("m2", 3)
    yield say.send("m1", 2, {"0": [0, 1]})
    yield say.send("m1", 2, {"0": [0]})
    yield say.send("m1", 2, {"0": [0, 3]})
    yield say.send("m2", 3)
    yield say.describe()
    yield say.commit("m1", 2, "t", 0)
    yield say.commit("m1", 3, "t", 0)
    yield say.commit("m1", 1, "t", 0)
    yield say.commit("m1", 4, "t", 0)
    yield say.commit("m2", 2, "t", 3)
    yield say.commit("x", 2, "t", 3)
    yield say.commit("", -1, "t", 3)
    yield say.send("m1", -1)
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m2", 3)
    yield say.describe()


def a_word_count(say: StreamsDialogue) -> Iterator[Answer]:
    """The broker makes the internal topics."""
    words, counts = "wc-words", "wc-counts"
    topology = Topology(
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["u"], repartition_sink_topics=[words]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[internal(words, cleanup_policy="delete", retention_ms="-1")],
                state_changelog_topics=[internal(counts, cleanup_policy="compact")],
            ),
        ]
    )
    yield say.join("m", topology)
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.partitions(words, counts)
    yield say.send("m", 1)
    yield say.describe()
    yield say.send("m", -1)


def topics_that_do_not_fit(say: StreamsDialogue) -> Iterator[Answer]:
    """Missing, or with other numbers of partitions."""
    yield say.join("m", reading("n1", "n2", "n3", "n4"))
    yield say.describe()
    say.wait(INTERVAL_MS)
    yield say.send("m", 1)
    yield say.send("m", -1)


def topics_that_are_joined(say: StreamsDialogue) -> Iterator[Answer]:
    """Copartitioned topics must have the same number of partitions."""
    group = CopartitionGroup(source_topics=[0, 1])
    yield say.join(
        "m",
        Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["t", "u"], copartition_groups=[group])]),
    )
    yield say.send("m", -1)


def a_declared_number(say: StreamsDialogue) -> Iterator[Answer]:
    """A repartition topic that is joined has the partitions of the source topic."""
    group = CopartitionGroup(source_topics=[0], repartition_source_topics=[0])
    yield say.join(
        "m",
        Topology(
            subtopologies=[
                Subtopology(
                    subtopology_id="0",
                    source_topics=["u"],
                    repartition_source_topics=[internal("declared", 5)],
                    copartition_groups=[group],
                ),
                Subtopology(subtopology_id="1", source_topics=["t"], repartition_sink_topics=["declared"]),
            ]
        ),
    )


def topologies_that_no_topics_fit(say: StreamsDialogue) -> Iterator[Answer]:
    """Loops, and topics that nobody writes."""
    unwritten = Subtopology(subtopology_id="0", repartition_source_topics=[internal("r")])
    yield say.join("m", Topology(subtopologies=[unwritten]))
    loop = Subtopology(subtopology_id="0", repartition_source_topics=[internal("r")], repartition_sink_topics=["r"])
    yield say.join("m", Topology(subtopologies=[loop]))
    yield say.describe()


def topologies_that_change(say: StreamsDialogue) -> Iterator[Answer]:
    """Newer, older and other topologies."""
    yield say.join("m", Topology(epoch=3, subtopologies=reading("t").subtopologies))
    yield say.join("n", reading("t"))
    yield say.join("o", Topology(epoch=4, subtopologies=reading("t").subtopologies))
    yield say.join("o", Topology(epoch=3, subtopologies=reading("u").subtopologies))
    say.wait(INTERVAL_MS)
    said = say.send("n", 1)
    yield [*said[:8], [len(tasks) for _, tasks in said[8]]]
    yield say.describe()[:6]


def an_application_that_stops(say: StreamsDialogue) -> Iterator[Answer]:
    """One member asks all to stop."""
    yield say.join("m", reading("t"))
    yield say.join("n", reading("t"))
    yield say.send("m", 1, shutdown_application=True)
    yield say.send("n", 1)
    yield say.send("m", -1)
    yield say.send("n", 1)
    yield say.send("n", -1)
    yield say.join("n", reading("t"))


def endpoints(say: StreamsDialogue) -> Iterator[Answer]:
    """Members learn where partitions are read."""
    yield say.join("m", reading("t", "u"), user_endpoint=Endpoint(host="one", port=1))
    say.wait(INTERVAL_MS)
    yield say.send("m", 1, endpoint_information_epoch=1)
    yield say.send("m", 2, endpoint_information_epoch=2)
    yield say.send("m", 2, endpoint_information_epoch=1)
    yield say.join("n", reading("t", "u"))
    yield say.send("m", -1)
    yield say.send("n", 2, endpoint_information_epoch=0)


def copies_of_state(say: StreamsDialogue) -> Iterator[Answer]:
    """Standby tasks, by a setting of the group."""
    changelog = internal("copies-changelog", cleanup_policy="compact")
    topology = Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=["u"], state_changelog_topics=[changelog])]
    )
    yield say.configure(streams_num_standby_replicas="9")
    yield say.configure(streams_num_standby_replicas="1")
    yield say.join("m", topology)
    say.wait(INTERVAL_MS)
    yield say.send("m", 1)
    yield say.describe()
    yield say.join("n", topology)
    say.wait(INTERVAL_MS)
    yield say.send("n", 2)[:8]
    described = say.describe()
    yield [described[:5], [[sum(len(each[1]) for each in role) for role in member[9]] for member in described[6]]]
    yield say.configure(streams_num_standby_replicas="0")
    say.wait(INTERVAL_MS)
    described = say.describe()
    yield described[:5]


def silent_members(say: StreamsDialogue) -> Iterator[Answer]:
    """Sessions end."""
    yield say.join("m", reading("t"))
    say.wait(SESSION_MS)
    yield say.describe()
    yield say.send("m", 1)


DIALOGUES: tuple[Callable[[StreamsDialogue], Iterator[Answer]], ...] = (
    requests_that_are_wrong,
    one_member,
    members_that_share,
    a_word_count,
    topics_that_do_not_fit,
    topics_that_are_joined,
    a_declared_number,
    topologies_that_no_topics_fit,
    topologies_that_change,
    an_application_that_stops,
    endpoints,
    copies_of_state,
    silent_members,
)
