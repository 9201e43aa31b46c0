"""Members of share groups that speak to a simulated broker in frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.base.errors import KqueueError
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.groups.share.records import StateTopic
from kqueue.records.batch import iter_batches, iter_records
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch
from kqueue.wire.messages import alter_share_group_offsets as alter
from kqueue.wire.messages import delete_share_group_offsets as delete
from kqueue.wire.messages import describe_share_group_offsets as describe
from kqueue.wire.messages import share_acknowledge, share_fetch, share_group_heartbeat

ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
Batches = Sequence[tuple[int, int, Sequence[int] | int]]


class Member:
    """A member that counts its own epochs. `has_states`: what it fetches gets a state first, as by
    a heartbeat.
    """

    def __init__(
        self,
        client: SimulatedClient,
        member_id: str = "m1",
        group: str = "g",
        version: int = 2,
        *,
        has_states: bool = True,
    ) -> None:
        self.client = client
        self.member_id = member_id
        self.group = group
        self.version = version
        self.has_states = has_states
        self.epoch = 0
        self.connection: object = object()

    def next_epoch(self, epoch: int | None) -> int:
        now = self.epoch if epoch is None else epoch
        if epoch is None:
            self.epoch += 1
        return now

    def request(self, epoch: int | None = None, topics: Sequence[str] = ("t",), **fields: Any) -> Any:
        """A ShareFetch for partition 0 of these topics, in the first request of a session."""
        now = self.next_epoch(epoch)
        if now == 0 and self.has_states:
            give_states(self.client, self.group, topics)
        acks: dict[str, Batches] = fields.pop("acks", {})
        named = dict.fromkeys((*(topics if now == 0 else ()), *acks))
        values = {"max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500, **fields}
        return share_fetch.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=now,
            topics=[
                share_fetch.FetchTopic(
                    topic_id=topic_id(self.client, topic),
                    partitions=[
                        share_fetch.FetchPartition(
                            partition_index=0,
                            acknowledgement_batches=[
                                share_fetch.AcknowledgementBatch(
                                    first_offset=first,
                                    last_offset=last,
                                    acknowledge_types=[types] if isinstance(types, int) else list(types),
                                )
                                for first, last, types in acks.get(topic, ())
                            ],
                        )
                    ],
                )
                for topic in named
            ],
            **values,
        )

    def start(self, epoch: int | None = None, **fields: Any) -> PendingRequest:
        """Begin a fetch."""
        return self.client.start(self.request(epoch, **fields), self.version, connection=self.connection)

    def fetch(self, epoch: int | None = None, **fields: Any) -> Any:
        """The response, or None while it waits."""
        return self.client.ask(self.request(epoch, **fields), self.version, connection=self.connection)

    def acknowledge(
        self, *batches: tuple[int, int, Sequence[int] | int], epoch: int | None = None, topic: str = "t", **more: Any
    ) -> Any:
        """The response to a ShareAcknowledge of one partition, or None while it waits."""
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.next_epoch(epoch),
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=topic_id(self.client, topic),
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=0,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first,
                                    last_offset=last,
                                    acknowledge_types=[types] if isinstance(types, int) else list(types),
                                )
                                for first, last, types in batches
                            ],
                        )
                    ],
                )
            ]
            if batches
            else [],
            **more,
        )
        return self.client.ask(request, self.version, connection=self.connection)


def give_states(client: SimulatedClient, group: str, topics: Sequence[str]) -> None:
    """Give share partitions the states that heartbeats of the group would give them."""
    known = [topic for name in topics if (topic := client.sim.broker.topics.find(name)) is not None]
    states = {topic.id: StateTopic(topic.name, frozenset(range(len(topic.partitions)))) for topic in known}
    answers: list[KqueueError | None] = []
    client.sim.broker.share.initialize(group, states, 0, answers.append)
    for _ in range(100):
        client.sim.settle()
        if answers == [None]:
            return
        answers.clear()
        client.sim.advance(10)  # the states are being loaded
        client.sim.broker.share.initialize(group, states, 0, answers.append)


def topic_id(client: SimulatedClient, topic: str) -> bytes:
    known = client.sim.broker.topics.find(topic)
    return known.id if known is not None else b"\x07" * 16


def data_of(response: Any) -> Any:
    """The only partition of a response."""
    assert response.error_code == 0, response
    [topic] = response.responses
    [partition] = topic.partitions
    return partition


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """First and last offset and delivery count of what was acquired."""
    if not response.responses:
        return []
    data = data_of(response)
    assert data.error_code == 0, data
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]


def offsets(response: Any) -> list[int]:
    """The offsets of the records in a response, acquired or not."""
    raw = bytes(data_of(response).records)
    return [record.offset for position, _ in iter_batches(raw) for record in iter_records(raw, position)]


def earliest(client: SimulatedClient, group: str = "g", **values: str) -> None:
    """Let a group begin at the start of the log, with more settings of it."""
    own = {name.replace("_", "."): value for name, value in values.items()}
    settings = {"share.auto.offset.reset": "earliest", **own}
    changes = [ConfigChange(ConfigOperation.SET, name, value) for name, value in settings.items()]
    client.sim.result(client.sim.broker.configs.alter(ConfigResource(ResourceType.GROUP, group), changes))


def fill(client: SimulatedClient, *counts: int, topic: str = "t") -> None:
    """Append a batch of each count."""
    for count in counts:
        answer = client.produce(topic, batch(*(b"%d" % number for number in range(count))))
        assert answer.error_code == 0


def beat(client: SimulatedClient, member_id: str, epoch: int, topics: list[str] | None = None, group: str = "g") -> Any:
    """The response to a ShareGroupHeartbeat."""
    request = share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
    )
    return client.ask(request, 1)


def assigned(response: Any) -> dict[str | bytes, list[int]]:
    """Partitions by topic; of the only topic ``t`` by its name."""
    assert response.error_code == 0, response
    partitions = [list(topic.partitions) for topic in response.assignment.topic_partitions]
    return {"t": partitions[0]} if partitions else {}


def share_group_at_2() -> SimulatedClient:
    """A broker whose group g, with the member m1, has accepted records 0, 1 and 3 of 5."""
    client = SimulatedClient()
    client.sim.topic("t")
    earliest(client)
    fill(client, 5)
    beat(client, "m1", 0, ["t"])
    client.sim.advance(1000)
    member = Member(client)
    member.fetch()
    assert data_of(member.acknowledge((0, 1, ACCEPT), (3, 3, ACCEPT))).error_code == 0
    member.fetch(epoch=-1)
    return client


def group_offsets(client: SimulatedClient, *, named: bool = True, group: str = "g") -> tuple[int, int, int]:
    """Error code of the group, start offset and lag."""
    topics = [describe.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])] if named else None
    request = describe.DescribeShareGroupOffsetsRequest(
        groups=[describe.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)]
    )
    [answer] = client.ask(request, 1).groups
    if answer.error_code or not answer.topics:
        return answer.error_code, -1, -1
    [partition] = answer.topics[0].partitions
    assert partition.error_code == 0
    return 0, partition.start_offset, partition.lag


def alter_offset(client: SimulatedClient, offset: int, topic: str = "t") -> tuple[int, int]:
    """Error codes of the request and of the only partition."""
    request = alter.AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            alter.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[alter.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)],
            )
        ],
    )
    response = client.ask(request, 0)
    return response.error_code, response.responses[0].partitions[0].error_code if response.responses else 0


def delete_offsets(client: SimulatedClient, topic: str = "t") -> tuple[int, int]:
    """Error codes of the request and of the only topic."""
    request = delete.DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[delete.DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
    )
    response = client.ask(request, 0)
    return response.error_code, response.responses[0].error_code if response.responses else 0
