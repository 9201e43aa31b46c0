"""Requests to the share coordinator for partition 0 of topic ``t`` in group ``g``."""

from __future__ import annotations

from typing import Any

from kqueue.share.share_state import SharePartitionKey, ShareState
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages import delete_share_group_state as deletes
from kqueue.wire.messages import initialize_share_group_state as initializes
from kqueue.wire.messages import read_share_group_state as reads
from kqueue.wire.messages import read_share_group_state_summary as summaries
from kqueue.wire.messages import write_share_group_state as writes

UNKNOWN_ID = b"\x07" * 16


def new_client(**settings: Any) -> SimulatedClient:
    """A client of a broker with topic ``t``."""
    client = SimulatedClient(settings)
    client.sim.topic("t", 2)
    return client


def key_of(client: SimulatedClient) -> SharePartitionKey:
    return SharePartitionKey("g", client.sim.broker.topics.get("t").id, 0)


def state_of(client: SimulatedClient) -> ShareState | None:
    return client.sim.broker.share.coordinator.read(key_of(client))


def outcome(client: SimulatedClient, request: Any, version: int = 0) -> Any:
    """The result of the one partition."""
    response = client.ask(request, version)
    return response.results[0].partitions[0]


def initialize(client: SimulatedClient, state_epoch: int = 1, start_offset: int = 5, **fields: Any) -> Any:
    partition = initializes.PartitionData(
        partition=fields.get("partition", 0), state_epoch=state_epoch, start_offset=start_offset
    )
    topics = [
        initializes.InitializeStateData(topic_id=fields.get("id", key_of(client).topic_id), partitions=[partition])
    ]
    request = initializes.InitializeShareGroupStateRequest(group_id=fields.get("group", "g"), topics=topics)
    return outcome(client, request)


def read(client: SimulatedClient, leader_epoch: int = -1, **fields: Any) -> Any:
    partition = reads.PartitionData(partition=fields.get("partition", 0), leader_epoch=leader_epoch)
    topics = [reads.ReadStateData(topic_id=fields.get("id", key_of(client).topic_id), partitions=[partition])]
    return outcome(client, reads.ReadShareGroupStateRequest(group_id=fields.get("group", "g"), topics=topics))


def write(client: SimulatedClient, *batches: tuple[int, int, int, int], version: int = 1, **fields: Any) -> Any:
    """`batches`: first and last offset, state, delivery count."""
    sent = [
        writes.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]
    values = {"state_epoch": 1, "leader_epoch": 0, "start_offset": -1, "partition": 0, **fields}
    topic_id, group = values.pop("id", key_of(client).topic_id), values.pop("group", "g")
    partition = writes.PartitionData(state_batches=sent, **values)
    topics = [writes.WriteStateData(topic_id=topic_id, partitions=[partition])]
    return outcome(client, writes.WriteShareGroupStateRequest(group_id=group, topics=topics), version)


def delete(client: SimulatedClient, **fields: Any) -> Any:
    partition = deletes.PartitionData(partition=fields.get("partition", 0))
    topics = [deletes.DeleteStateData(topic_id=fields.get("id", key_of(client).topic_id), partitions=[partition])]
    return outcome(client, deletes.DeleteShareGroupStateRequest(group_id=fields.get("group", "g"), topics=topics))


def summarize(client: SimulatedClient, version: int = 1, **fields: Any) -> Any:
    partition = summaries.PartitionData(partition=fields.get("partition", 0), leader_epoch=-1)
    topics = [
        summaries.ReadStateSummaryData(topic_id=fields.get("id", key_of(client).topic_id), partitions=[partition])
    ]
    request = summaries.ReadShareGroupStateSummaryRequest(group_id=fields.get("group", "g"), topics=topics)
    return outcome(client, request, version)
