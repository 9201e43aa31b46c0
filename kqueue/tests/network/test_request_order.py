"""Pipelined requests get the same responses as sequential ones, for all APIs, on a slow disk.

Each pair of requests runs in two worlds of the same content: pipelined in one, sequential in the
other. Responses must be equal except for the worlds' names.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kqueue.app import Server
from kqueue.base.config import Config
from kqueue.config.properties import SourcedValue, make_config
from kqueue.metadata.memory import MemoryStore
from kqueue.network.interception import BrokerHooks
from kqueue.records.any_format import iter_any_records
from kqueue.tests.api.group_client import RANGE
from kqueue.tests.api.harness import batch
from kqueue.tests.network.harness import API, FREE_PORT, Client, request_bytes
from kqueue.tests.thorough import corners
from kqueue.transactions import completion
from kqueue.wire.messages.create_partitions import CreatePartitionsTopic
from kqueue.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from kqueue.wire.messages.describe_configs import DescribeConfigsResource
from kqueue.wire.messages.describe_log_dirs import DescribableLogDirTopic
from kqueue.wire.messages.fetch import FetchPartition, FetchTopic
from kqueue.wire.messages.join_group import JoinGroupRequestProtocol
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from kqueue.wire.messages.metadata import MetadataRequestTopic
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kqueue.wire.messages.offset_fetch import OffsetFetchRequestTopic
from kqueue.wire.messages.offset_for_leader_epoch import OffsetForLeaderPartition, OffsetForLeaderTopic
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData
from kqueue.wire.messages.sync_group import SyncGroupRequestAssignment

SYNC_S = 0.05


class World:
    """One topic, one missing topic, one group with a member, and one group with commits only.

    All names begin with `name`.
    """

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self.client = client
        self.topic = f"{name}-t"
        self.new = f"{name}-n"
        self.members = f"{name}-m"
        self.offsets = f"{name}-o"
        self.member_id = ""
        self.producers: dict[str, int] = {}  # producer id by the last letter of the transactional id

    async def prepare(self) -> None:
        await self.ask(
            Step("CreateTopics", 4, lambda world: {"topics": [creatable(world.topic)], "timeout_ms": 10_000})
        )
        await self.ask(produce(b"first", b"second", b"third"))
        await self.ask(commit("offsets", 1))
        joined = await self.ask(STEPS["JoinGroup"])
        self.member_id = joined.member_id
        await self.ask(STEPS["SyncGroup"])
        for letter in ("x", "y"):
            self.producers[letter] = (await self.ask(init_producer(letter))).producer_id
        await self.ask(transactional("x", 0))

    async def ask(self, *steps: Step) -> Any:
        """Send these requests together; return their responses, or the response of a single
        request.
        """
        sent = b""
        for number, step in enumerate(steps):
            api = API[step.api]
            sent += request_bytes(api, step.version, api.request_class(**step.fields(self)), number)
        self.client.send_raw(sent)
        answers = []
        for number, step in enumerate(steps):
            correlation_id, answer = await self.client.receive(step.api, step.version)
            assert correlation_id == number
            answers.append(answer)
        return answers[0] if len(steps) == 1 else answers

    def plain(self, answer: Any) -> str:
        """Return the response as text, without what differs between worlds."""
        if hasattr(answer, "producer_id"):
            answer.producer_id = 0
        if hasattr(answer, "groups") and answer.groups and hasattr(answer.groups[0], "group_type"):
            answer.groups = sorted(
                (group for group in answer.groups if group.group_id.startswith(self.name)),
                key=lambda group: group.group_id,
            )
        for topic in getattr(answer, "responses", ()):
            for partition in getattr(topic, "partitions", ()):  # of a Fetch
                records = iter_any_records(bytes(partition.records or b""))
                partition.records = [(record.offset, record.value) for record in records]
        text = re.sub(r"producer \d+", "producer", repr(answer))
        return text.replace(self.member_id or "no member yet", "member").replace(self.name, "world")


class Step(NamedTuple):
    """One request: API, version, and its fields in a given world."""

    api: str
    version: int
    fields: Callable[[World], Mapping[str, Any]]


def creatable(name: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="retention.ms", value="7777777")],
    )


def three_partitions(name: str) -> CreatePartitionsTopic:
    return CreatePartitionsTopic(name=name, count=3, assignments=None)


def produce(*values: bytes, topic: str = "topic") -> Step:
    def fields(world: World) -> Mapping[str, Any]:
        partitions = [PartitionProduceData(index=0, records=batch(*values))]
        return {
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [TopicProduceData(name=getattr(world, topic), partition_data=partitions)],
        }

    return Step("Produce", 7, fields)


def init_producer(letter: str) -> Step:
    def fields(world: World) -> Mapping[str, Any]:
        return {"transactional_id": f"{world.name}-{letter}", "transaction_timeout_ms": 60_000}

    return Step("InitProducerId", 4, fields)


def transactional(letter: str, sequence: int) -> Step:
    """Produce in the transaction of x, which is open, or as the first of y's."""

    def fields(world: World) -> Mapping[str, Any]:
        raw = batch(b"in it", producer_id=world.producers[letter], epoch=0, base_sequence=sequence, transactional=True)
        partitions = [PartitionProduceData(index=0, records=raw)]
        return {
            "transactional_id": f"{world.name}-{letter}",
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [TopicProduceData(name=world.topic, partition_data=partitions)],
        }

    return Step("Produce", 12, fields)


def end_transaction(world: World) -> Mapping[str, Any]:
    return {
        "transactional_id": f"{world.name}-x",
        "producer_id": world.producers["x"],
        "producer_epoch": 0,
        "committed": True,
    }


def commit(group: str, offset: int) -> Step:
    def fields(world: World) -> Mapping[str, Any]:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")]
        topics = [OffsetCommitRequestTopic(name=world.topic, partitions=partitions)]
        member = {"member_id": world.member_id, "generation_id_or_member_epoch": 1} if group == "members" else {}
        return {"group_id": getattr(world, group), "topics": topics, **member}

    return Step("OffsetCommit", 5, fields)


def join(world: World) -> Mapping[str, Any]:
    return {
        "group_id": world.members,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": world.member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=RANGE)],
    }


def sync(world: World) -> Mapping[str, Any]:
    assignments = [SyncGroupRequestAssignment(member_id=world.member_id, assignment=b"all")]
    return {"group_id": world.members, "generation_id": 1, "member_id": world.member_id, "assignments": assignments}


def topics_named(world: World) -> tuple[str, str]:
    return world.topic, world.new


STEPS = {
    "CreateTopics": Step("CreateTopics", 4, lambda world: {"topics": [creatable(world.new)], "timeout_ms": 10_000}),
    "CreatePartitions": Step(
        "CreatePartitions", 1, lambda world: {"topics": [three_partitions(world.topic)], "timeout_ms": 10_000}
    ),
    "DeleteTopics": Step("DeleteTopics", 3, lambda world: {"topic_names": [world.topic], "timeout_ms": 10_000}),
    "DeleteRecords": Step(
        "DeleteRecords",
        1,
        lambda world: {
            "topics": [
                DeleteRecordsTopic(name=world.topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
            ],
            "timeout_ms": 10_000,
        },
    ),
    "Produce": produce(b"one more"),
    "Produce to the new topic": produce(b"one", topic="new"),
    "Produce in a transaction": transactional("x", 1),
    "Produce of a new transaction": transactional("y", 0),
    "EndTxn": Step("EndTxn", 5, end_transaction),
    "InitProducerId": Step("InitProducerId", 1, lambda world: {"transactional_id": None}),
    "OffsetCommit": commit("offsets", 2),
    "OffsetCommit of a member": commit("members", 2),
    "DeleteGroups": Step("DeleteGroups", 1, lambda world: {"groups_names": [world.offsets]}),
    "JoinGroup": Step("JoinGroup", 3, join),
    "SyncGroup": Step("SyncGroup", 2, sync),
    "LeaveGroup": Step("LeaveGroup", 1, lambda world: {"group_id": world.members, "member_id": world.member_id}),
    "Heartbeat": Step(
        "Heartbeat", 2, lambda world: {"group_id": world.members, "generation_id": 1, "member_id": world.member_id}
    ),
    "Metadata": Step(
        "Metadata",
        5,
        lambda world: {
            "topics": [MetadataRequestTopic(name=name) for name in topics_named(world)],
            "allow_auto_topic_creation": False,
        },
    ),
    "DescribeConfigs": Step(
        "DescribeConfigs",
        1,
        lambda world: {
            "resources": [
                DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=["retention.ms"])
                for name in topics_named(world)
            ]
        },
    ),
    "DescribeLogDirs": Step(
        "DescribeLogDirs",
        1,
        lambda world: {"topics": [DescribableLogDirTopic(topic=name, partitions=[0]) for name in topics_named(world)]},
    ),
    "ListOffsets (latest)": Step("ListOffsets", 4, lambda world: list_offsets(world, -1)),
    "ListOffsets (earliest)": Step("ListOffsets", 4, lambda world: list_offsets(world, -2)),
    "OffsetForLeaderEpoch": Step(
        "OffsetForLeaderEpoch",
        2,
        lambda world: {
            "replica_id": -1,
            "topics": [
                OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
                for name in topics_named(world)
            ],
        },
    ),
    "Fetch": Step(
        "Fetch",
        6,
        lambda world: {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "topics": [
                FetchTopic(
                    topic=name, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
                )
                for name in topics_named(world)
            ],
        },
    ),
    "ListOffsets of read_committed": Step(
        "ListOffsets", 5, lambda world: {**list_offsets(world, -1), "isolation_level": 1}
    ),
    "OffsetFetch": Step(
        "OffsetFetch",
        5,
        lambda world: {
            "group_id": world.offsets,
            "topics": [OffsetFetchRequestTopic(name=world.topic, partition_indexes=[0])],
        },
    ),
    "OffsetFetch of the member's group": Step(
        "OffsetFetch",
        5,
        lambda world: {
            "group_id": world.members,
            "topics": [OffsetFetchRequestTopic(name=world.topic, partition_indexes=[0])],
        },
    ),
    "DescribeGroups": Step("DescribeGroups", 2, lambda world: {"groups": [world.members, world.offsets]}),
    "ListGroups": Step("ListGroups", 2, lambda world: {}),
}


def list_offsets(world: World, timestamp: int) -> Mapping[str, Any]:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    return {
        "replica_id": -1,
        "topics": [ListOffsetsTopic(name=name, partitions=partitions) for name in topics_named(world)],
    }


CHANGES = (
    "CreateTopics", "CreatePartitions", "DeleteTopics", "DeleteRecords", "Produce", "Produce in a transaction",
    "Produce of a new transaction", "EndTxn", "InitProducerId", "OffsetCommit", "OffsetCommit of a member",
    "DeleteGroups", "JoinGroup", "SyncGroup", "LeaveGroup",
)  # fmt: skip


class Disk:
    """A disk whose syncs and commits are slow once `is_slow`; none may run on the broker's own
    thread.
    """

    def __init__(self) -> None:
        self.is_slow = False

    def wait(self) -> None:
        if self.is_slow:
            time.sleep(SYNC_S)

    def __call__(self, kind: str, path: str, size: int) -> None:
        if kind == "sync" and threading.current_thread() is not threading.main_thread():
            self.wait()


class SlowStore(MemoryStore):
    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self._disk = disk

    def commit(self, *args: Any) -> Mapping[str, int]:
        self._disk.wait()
        return super().commit(*args)


async def differences(change: str, config: Config) -> dict[str, tuple[str, str]]:
    """Return both responses for each second request whose response differs."""
    disk = Disk()
    hooks = BrokerHooks()
    hooks.storage.hooks = (disk,)
    server = Server(config, store=SlowStore(disk), hooks=hooks)
    await server.start()
    by_request: dict[str, tuple[str, str]] = {}
    clients: list[Client] = []

    async def world(name: str) -> World:
        clients.append(Client(*await asyncio.open_connection(*server.bound("PLAINTEXT"))))
        made = World(name, clients[-1])
        await made.prepare()
        return made

    async def compare(second: str, together: World, separate: World) -> None:
        steps = STEPS[change], STEPS[second]
        one = [together.plain(answer) for answer in await together.ask(*steps)]
        other = [separate.plain(await separate.ask(step)) for step in steps]
        if one != other:
            by_request[second] = (one[1], other[1])

    try:
        together = await asyncio.gather(*(world(f"together{number:02}") for number in range(len(STEPS))))
        separate = await asyncio.gather(*(world(f"separate{number:02}") for number in range(len(STEPS))))
        disk.is_slow = True
        await asyncio.gather(*map(compare, STEPS, together, separate))
    finally:
        disk.is_slow = False
        for client in clients:
            await client.close()
        await server.stop()
    return by_request


@pytest.mark.parametrize("change", corners(CHANGES, "EndTxn"))
def test_pipelined_request_sees_earlier_changes(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # markers of all worlds at once on a slow disk: else the end of a transaction is answered before
    monkeypatch.setattr(completion, "WAIT_MS_MAX", 60_000)
    settings = {
        "listeners": FREE_PORT,
        "log.dirs": [str(tmp_path)],
        "kqueue.flush": "group",
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": False,
    }
    config = make_config({name: SourcedValue(value, "test") for name, value in settings.items()})
    assert asyncio.run(differences(change, config)) == {}
