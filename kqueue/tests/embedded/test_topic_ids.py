"""Topic ids that a client guesses: those of topics that it may not describe answer as ids that no
topic has, in the same words and by the same work, for each API that takes ids of clients.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import kqueue
from kqueue.base.addresses import parse_addresses
from kqueue.base.names import uuid_text
from kqueue.client.connection import Connection
from kqueue.client.deadline import Deadline
from kqueue.client.options import ClientOptions
from kqueue.config.client_security import ClientSecurity
from kqueue.tests.api.test_costliest_requests import CallCounter
from kqueue.tests.client.serving import batch
from kqueue.wire.apis import BY_KEY, Api
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages import (
    consumer_group_heartbeat,
    delete_topics,
    fetch,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    share_acknowledge,
    share_fetch,
)

USERS = {"ann": "secret", "eve": "other"}
ACLS = [
    "User:ann allow all topic:private",
    "User:eve allow all topic:own",
    "User:eve allow all group:eves",
    "User:eve allow all group:shared",
]
MAX_WAIT_MS = 3_600_000
"""Longer than the test waits for a response."""
ROUNDS = 5
_VARYING = re.compile(r"member_id='[^']*'|<memory at [^>]*>")  # each request is of a member of its own
APIS = {api.name: api for api in BY_KEY.values()}
Ask = Callable[..., Any]


def _metadata(*ids: bytes) -> object:
    topics = [metadata.MetadataRequestTopic(topic_id=id, name=None) for id in ids]
    return metadata.MetadataRequest(topics=topics, include_topic_authorized_operations=True)


def _fetch(*ids: bytes) -> object:
    partition = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [fetch.FetchTopic(topic_id=id, partitions=[partition]) for id in ids]
    return fetch.FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, topics=topics)


def _produce(*ids: bytes) -> object:
    data = produce.PartitionProduceData(index=0, records=memoryview(batch([b"x"])))
    topics = [produce.TopicProduceData(topic_id=id, partition_data=[data]) for id in ids]
    return produce.ProduceRequest(acks=-1, timeout_ms=MAX_WAIT_MS, topic_data=topics)


def _delete_topics(id: bytes) -> object:
    state = delete_topics.DeleteTopicState(topic_id=id)
    return delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=MAX_WAIT_MS)


def _offset_commit(*ids: bytes) -> object:
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=None
    )
    topics = [offset_commit.OffsetCommitRequestTopic(topic_id=id, partitions=[partition]) for id in ids]
    return offset_commit.OffsetCommitRequest(group_id="eves", topics=topics)


def _offset_fetch(*ids: bytes) -> object:
    topics = [offset_fetch.OffsetFetchRequestTopics(topic_id=id, partition_indexes=[0]) for id in ids]
    return offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id="eves", topics=topics)]
    )


def _share_fetch(*ids: bytes) -> object:
    topics = [share_fetch.FetchTopic(topic_id=id, partitions=[share_fetch.FetchPartition()]) for id in ids]
    return share_fetch.ShareFetchRequest(
        group_id="shared",
        member_id=uuid_text(secrets.token_bytes(16)),
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_records=10,
        topics=topics,
    )


def _share_acknowledge(id: bytes) -> object:
    records = share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[records])
    topic = share_acknowledge.AcknowledgeTopic(topic_id=id, partitions=[partition])
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id="shared", member_id=MEMBER, share_session_epoch=1, topics=[topic]
    )


def _heartbeat(id: bytes) -> object:
    owned = [consumer_group_heartbeat.TopicPartitions(topic_id=id, partitions=[0])]
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="eves",
        member_id=uuid_text(secrets.token_bytes(16)),
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["own"],
        topic_partitions=owned,
    )


MEMBER = uuid_text(bytes(range(16)))
REQUESTS: dict[str, Callable[..., object]] = {
    "Metadata": _metadata,
    "Fetch": _fetch,
    "Produce": _produce,
    "DeleteTopics": _delete_topics,
    "OffsetCommit": _offset_commit,
    "OffsetFetch": _offset_fetch,
    "ShareFetch": _share_fetch,
    "ShareAcknowledge": _share_acknowledge,
    "ConsumerGroupHeartbeat": _heartbeat,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(users=USERS, acls=ACLS) as running:
        for name in ("private", "own"):
            running.create_topic(name)
        yield running


@pytest.fixture(scope="module")
def private_id(broker: kqueue.Broker) -> bytes:
    return broker._server.broker.topics.get("private").id


@pytest.fixture(scope="module")
def ask(broker: kqueue.Broker) -> Iterator[Ask]:
    security = ClientSecurity.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "eve",
            "sasl.password": USERS["eve"],
        }
    )
    [address] = parse_addresses(broker.bootstrap)
    connection = Connection(address, ClientOptions(bootstrap=broker.bootstrap, security=security), Deadline(60_000))

    def ask(name: str, *ids: bytes) -> Any:
        api: Api = APIS[name]
        return connection.call(api, connection.version(api), REQUESTS[name](*ids), Deadline(60_000))

    yield ask
    connection.close()


def entered(counter: CallCounter) -> Callable[[object], Awaitable[None]]:
    """Return a call into the broker, whose thread is counted from then on."""

    async def enter(server: object) -> None:
        counter.__enter__()

    return enter


def left(counter: CallCounter) -> Callable[[object], Awaitable[None]]:
    async def leave(server: object) -> None:
        counter.__exit__()

    return leave


def shown(response: object, id: bytes) -> str:
    """Return all that a client sees, with a mark where the id that it asked for is."""
    text = repr(response).replace(repr(id), "<id>").replace(uuid_text(id), "<id>")
    return _VARYING.sub("<>", text)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_hidden_id_answers_as_an_unknown_one(name: str, ask: Ask, private_id: bytes) -> None:
    unknown_id = secrets.token_bytes(16)
    hidden, unknown = shown(ask(name, private_id), private_id), shown(ask(name, unknown_id), unknown_id)
    assert hidden == unknown
    if name not in ("ConsumerGroupHeartbeat", "ShareAcknowledge"):
        assert f"error_code={int(ErrorCode.UNKNOWN_TOPIC_ID)}" in hidden


@pytest.mark.parametrize("name", REQUESTS)
def test_a_hidden_id_costs_as_many_calls_as_an_unknown_one(
    name: str, ask: Ask, broker: kqueue.Broker, private_id: bytes
) -> None:
    def calls(id: bytes) -> int:
        counter = CallCounter()
        broker._ask(entered(counter))
        ask(name, id)
        broker._ask(left(counter))
        return counter.count

    # Timers of the broker may run meanwhile, which adds calls to some.
    hidden = min(calls(private_id) for _ in range(ROUNDS))
    unknown = min(calls(secrets.token_bytes(16)) for _ in range(ROUNDS))
    assert hidden == pytest.approx(unknown, rel=0.5)


BASE_OFFSET = re.compile("base_offset=[0-9]+")


@pytest.mark.parametrize("name", ["Fetch", "ShareFetch", "Metadata", "OffsetCommit", "OffsetFetch", "Produce"])
def test_a_hidden_id_beside_a_topic_of_ones_own_answers_so_too(
    name: str, ask: Ask, broker: kqueue.Broker, private_id: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "MAX_WAIT_MS", 10)  # for records of the topic of its own
    own_id, unknown_id = broker._server.broker.topics.get("own").id, secrets.token_bytes(16)
    answers = [BASE_OFFSET.sub("", shown(ask(name, own_id, id), id)) for id in (unknown_id, private_id)]
    assert answers[0] == answers[1]
