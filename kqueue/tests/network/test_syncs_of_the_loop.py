"""The broker's own thread syncs nothing while it serves.

Source: docs/internals/threads-and-waiting.md: whatever waits for a disk is an IoJob.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from kqueue.app import Server
from kqueue.config.properties import SourcedValue, make_config
from kqueue.network.interception import BrokerHooks
from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.storage.fault_injection import InjectedFailure
from kqueue.tests.network.harness import FREE_PORT, Client, connect, until
from kqueue.tests.network.test_cleaning import records
from kqueue.tests.test_app import create_topic
from kqueue.wire.messages.create_partitions import CreatePartitionsTopic
from kqueue.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kqueue.wire.messages.produce import PartitionProduceData, TopicProduceData

SYNCS = ("sync", "sync_folder", "write_atomic")
SETTINGS = {
    "listeners": FREE_PORT,
    "log.cleaner.backoff.ms": 20,
    "log.retention.check.interval.ms": 20,
    "log.flush.offset.checkpoint.interval.ms": 20,
    "replica.high.watermark.checkpoint.interval.ms": 20,
    "offsets.topic.num.partitions": 1,
}


class Watch:
    """Records the syncs of the event loop's thread."""

    def __init__(self) -> None:
        self.syncs: list[str] = []
        self._loop_thread = threading.current_thread()

    def __call__(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        if kind in SYNCS and threading.current_thread() is self._loop_thread:
            self.syncs.append(f"{kind} {path}")
        return None


async def put(client: Client, topic: str, number: int, acks: int) -> None:
    records = bytes(build_batch([Record(0, 0, b"key-%d" % (number % 5), b"%d" % number * 100)]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    response = await client.ask("Produce", 8, acks=acks, timeout_ms=10_000, topic_data=[data])
    assert response.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("mode", ["group", "kafka"])
def test_loop_thread_never_syncs(tmp_path: Path, mode: str) -> None:
    async def test() -> None:
        hooks, watch = BrokerHooks(), Watch()
        values = {**SETTINGS, "log.dirs": [str(tmp_path)], "kqueue.flush": mode}
        server = Server(make_config({name: SourcedValue(value, "test") for name, value in values.items()}), hooks=hooks)
        await server.start()
        client, broker = await connect(server), server.broker
        hooks.storage.hooks = (watch,)
        try:
            for policy in ("delete", "compact"):
                configs = {
                    "segment.bytes": "1000",
                    "cleanup.policy": policy,
                    "retention.bytes": "3000",
                    "retention.ms": "-1",
                }
                configs["file.delete.delay.ms"] = "20"
                topic = CreatableTopic(
                    name=policy,
                    num_partitions=1,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
                )
                await client.ask("CreateTopics", 4, topics=[topic], timeout_ms=10_000)
            await create_topic(client, "gone")
            for number in range(40):
                for name in ("delete", "compact", "gone"):
                    await put(client, name, number, acks=1 if number % 4 else -1)
                if number % 4 == 3:
                    partitions = [broker.topics.partition(name, 0) for name in ("delete", "compact")]
                    await until(lambda: not any(one.log.roll_due for one in partitions))  # noqa: B023
            deleted, compacted = broker.topics.partition("delete", 0), broker.topics.partition("compact", 0)
            await until(lambda: deleted.log_start_offset > 20, 60)
            await until(lambda: (broker.logs.checkpoints.cleaner_offset(("compact", 0)) or 0) > 20, 60)
            topics = [
                DeleteRecordsTopic(name="delete", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
            ]
            assert (await client.ask("DeleteRecords", 2, topics=topics, timeout_ms=10_000)).topics[0].partitions[
                0
            ].error_code == 0
            grown = [CreatePartitionsTopic(name="compact", count=3, assignments=None)]
            assert (await client.ask("CreatePartitions", 1, topics=grown, timeout_ms=10_000)).results[0].error_code == 0
            offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
            committed = [OffsetCommitRequestTopic(name="delete", partitions=[offset])]
            response = await client.ask(
                "OffsetCommit", 2, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=committed
            )
            assert response.topics[0].partitions[0].error_code == 0
            assert (await client.ask("DeleteTopics", 4, topic_names=["gone"], timeout_ms=10_000)).responses[
                0
            ].error_code == 0
            await create_topic(client, "gone")  # checkpoints still name the one before
            await until(lambda: broker.logs.has("gone", 0))
            await put(client, "gone", 0, acks=-1)
            assert records(compacted)
        finally:
            hooks.storage.hooks = ()
            await client.close()
            await server.stop()
        assert sorted(set(watch.syncs)) == []

    asyncio.run(test())
