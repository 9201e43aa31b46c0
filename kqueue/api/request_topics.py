"""The topics and partitions that a request of any API names, for interception and request logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from kqueue.base.errors import KqueueError
from kqueue.base.names import UUID_ZERO
from kqueue.broker.broker import Broker
from kqueue.share.sessions import MemberKey
from kqueue.wire.apis import ALL, Api

RESOURCE_TOPIC = 2
TOPICS = (
    "topic_data",
    "topics",
    "topic_names",
    "topic_partitions",
    "subscribed_topic_names",
    "v3_and_below_topics",
    "resources",
)
PARENTS = ("groups", "transactions", "markers", "dirs")
"""Names of fields that list structures which hold topics in turn."""
PARTITIONS = ("partition_data", "partitions", "partition_indexes")
NAME = ("name", "topic", "topic_name")
INDEX = ("index", "partition", "partition_index")

APIS_WITH_TOPICS = frozenset(
    {
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
        "DeleteShareGroupState",
        "DescribeShareGroupOffsets",
        "InitializeShareGroupState",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "WriteShareGroupState",
        "ShareGroupHeartbeat",
        "AddPartitionsToTxn",
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "ConsumerGroupHeartbeat",
        "CreatePartitions",
        "CreateTopics",
        "DeleteRecords",
        "DeleteTopics",
        "DescribeConfigs",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeTopicPartitions",
        "ElectLeaders",
        "Fetch",
        "ListOffsets",
        "ListPartitionReassignments",
        "Metadata",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "Produce",
        "ShareAcknowledge",
        "ShareFetch",
        "TxnOffsetCommit",
        "WriteTxnMarkers",
    }
)
"""Served APIs whose requests name topics."""


def find_api(name: str) -> Api:
    """Return the API of this name, in any case.

    Raises: ValueError: there is none; suggests the nearest. TypeError: no name.
    """
    if not isinstance(name, str):
        raise TypeError(f'api={name!r}: expected the name of one API, such as "Produce"')
    api = _BY_NAME.get(name.lower())
    if api is None:
        nearest = get_close_matches(name.lower(), _BY_NAME, 1, 0.0)[0]
        raise ValueError(f"there is no API {name!r}; did you mean {_BY_NAME[nearest].name!r}?")
    return api


_BY_NAME = {api.name.lower(): api for api in ALL}


class RequestTopic(NamedTuple):
    """One topic of a request: name, or 16-byte id; `partitions` is empty if none is named."""

    topic: str | bytes
    partitions: tuple[int, ...]


def topics_in_request(request: Any) -> list[RequestTopic]:
    """Return the topics that the request's bytes name, in order. See `accessed_topics`."""
    return list(_topics(request))


def accessed_topics(request: Any, api: str, broker: Broker) -> list[RequestTopic]:
    """Return `topics_in_request` with ids resolved to names, and with the partitions of a fetch
    session or share session.
    """
    named = topics_in_request(request)
    if api in _SESSION_PARTITIONS:
        present = {(one.topic, index) for one in named for index in one.partitions}
        keys = _SESSION_PARTITIONS[api](request, broker)
        named += [RequestTopic(key[0], (key[1],)) for key in keys if key not in present]
    return [RequestTopic(topic_name_of(one.topic, broker), one.partitions) for one in named]


def _fetch_session(request: Any, broker: Broker) -> Iterable[tuple[str | bytes, int]]:
    return broker.fetch_sessions.of_consumers.partitions_of(request.session_id) if request.session_epoch > 0 else ()


def _share_session(request: Any, broker: Broker) -> Iterable[tuple[str | bytes, int]]:
    session = broker.share.sessions.find(MemberKey(request.group_id, request.member_id))
    return session.partitions if session is not None and request.share_session_epoch > 0 else ()


_SESSION_PARTITIONS: dict[str, Callable[[Any, Broker], Iterable[tuple[str | bytes, int]]]] = {
    "Fetch": _fetch_session,
    "ShareFetch": _share_session,
}


def topic_name_of(topic: str | bytes, broker: Broker) -> str | bytes:
    """Return the name of a topic given by name or id; an unknown id as it is."""
    if isinstance(topic, str):
        return topic
    try:
        return broker.topics.by_id(topic).name
    except KqueueError:
        return topic


def _topics(request: Any) -> Iterator[RequestTopic]:
    for attribute in TOPICS:
        for item in getattr(request, attribute, None) or ():
            if isinstance(item, str):
                yield RequestTopic(item, ())
            elif attribute != "resources":
                yield RequestTopic(topic_key(item), _partitions(item))
            elif item.resource_type == RESOURCE_TOPIC:
                yield RequestTopic(item.resource_name, ())
    for attribute in PARENTS:
        for parent in getattr(request, attribute, None) or ():
            yield from _topics(parent)


def topic_key(item: Any) -> str | bytes:
    """Return the name, else the id, of a topic's part of a request or response."""
    topic_id = getattr(item, "topic_id", UUID_ZERO)
    name: str | None = next((value for key in NAME if (value := getattr(item, key, None))), None)
    return topic_id if not name and topic_id != UUID_ZERO else name or ""


def partition_index(item: Any) -> int:
    """Return the index of a partition's part of a request or response."""
    if isinstance(item, int):
        return item
    value: int = next(getattr(item, name) for name in INDEX if hasattr(item, name))
    return value


def _partitions(item: Any) -> tuple[int, ...]:
    value = next((getattr(item, name) for name in PARTITIONS if hasattr(item, name)), None) or ()
    return tuple(partition_index(one) for one in value)
