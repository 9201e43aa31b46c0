from __future__ import annotations

from kqueue.client import NewTopic, ResourceType, TopicPartition
from kqueue.client.calls.contract import NodeCall
from kqueue.client.calls.create_topics import CreateTopics
from kqueue.client.calls.delete_topics import DeleteTopics
from kqueue.client.calls.find_coordinator import FindCoordinator
from kqueue.client.calls.group_offsets import CommitOffsets, FetchCommitted, FindPending
from kqueue.client.calls.init_producer_id import InitProducerId
from kqueue.client.calls.list_groups import ListGroups
from kqueue.client.calls.metadata import GetMetadata
from kqueue.client.calls.resource_configs import DescribeResources
from kqueue.client.calls.transactions import (
    AddPartitionsToTxn,
    DescribeTransaction,
    EndTxn,
    FenceProducer,
    InitTransactions,
    ListTransactions,
    TransactionalProducer,
)
from kqueue.client.deadline import Deadline
from kqueue.schema import decode, encode
from kqueue.tests.tables import for_each

CALLS: list[NodeCall[object]] = [
    DescribeResources(ResourceType.TOPIC, ["t"]), CreateTopics([NewTopic("t")], Deadline(1_000)),
    DeleteTopics(["t"], Deadline(1_000)),
    FindCoordinator("g"), CommitOffsets("g", {}), FetchCommitted("g", None, stable=True),
    FindPending("g", [TopicPartition("t", 0)]), InitProducerId(),
    ListGroups(), ListTransactions(["Ongoing"], [7], 1_000), DescribeTransaction("x"), FenceProducer("x"),
    GetMetadata(["t"]), InitTransactions("x", 1_000), EndTxn(TransactionalProducer("x", 7, 2), committed=True),
    AddPartitionsToTxn(TransactionalProducer("x", 7, 2), [TopicPartition("t", 0)]),
]  # fmt: skip


@for_each("call", CALLS)
def test_each_version_of_a_call_can_be_encoded(call: NodeCall[object]) -> None:
    lowest, highest = call.versions
    assert call.api.versions[0] <= lowest <= highest <= call.api.versions[1]
    for version in range(lowest, highest + 1):
        request = call.request(version)
        assert encode(decode(type(request), version, encode(request, version)), version) == encode(request, version)
