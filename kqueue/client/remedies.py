"""What to do about each error that a broker may answer with: one table; and the words for those
that end a call.
"""

from __future__ import annotations

import enum

from kqueue.base.errors import BadAnswer, BrokerRefused, BrokerUnreachable, ClientError, ConnectionLost, FetchOutOfRange
from kqueue.client.places import TopicPartition
from kqueue.wire.error_codes import ErrorCode

E = ErrorCode


class Remedy(enum.Enum):
    """What makes sense after an error; what `REMEDIES` does not name is FATAL."""

    AGAIN = "ask the same broker again, later"
    REFRESH = "somebody else leads, or will: get new metadata, and ask who leads then"
    COORDINATOR = "look for the coordinator anew"
    MISSING = "as REFRESH, but not for long: most likely it does not exist"
    UNSURE = "as REFRESH, if doing it twice does no harm: it may have been done"
    FATAL = "asking again will not help"


REMEDIES: dict[ErrorCode, Remedy] = {
    E.LEADER_NOT_AVAILABLE: Remedy.REFRESH,
    E.NOT_LEADER_OR_FOLLOWER: Remedy.REFRESH,
    E.FENCED_LEADER_EPOCH: Remedy.REFRESH,
    E.UNKNOWN_LEADER_EPOCH: Remedy.REFRESH,
    E.REPLICA_NOT_AVAILABLE: Remedy.REFRESH,
    E.BROKER_NOT_AVAILABLE: Remedy.REFRESH,
    E.LISTENER_NOT_FOUND: Remedy.REFRESH,
    E.NOT_CONTROLLER: Remedy.REFRESH,
    E.INCONSISTENT_TOPIC_ID: Remedy.REFRESH,
    E.UNKNOWN_TOPIC_OR_PARTITION: Remedy.MISSING,
    E.UNKNOWN_TOPIC_ID: Remedy.MISSING,
    E.OFFSET_NOT_AVAILABLE: Remedy.AGAIN,
    E.NOT_ENOUGH_REPLICAS: Remedy.AGAIN,
    E.COORDINATOR_LOAD_IN_PROGRESS: Remedy.AGAIN,
    E.UNSTABLE_OFFSET_COMMIT: Remedy.AGAIN,
    E.THROTTLING_QUOTA_EXCEEDED: Remedy.AGAIN,
    E.CONCURRENT_TRANSACTIONS: Remedy.AGAIN,
    E.COORDINATOR_NOT_AVAILABLE: Remedy.COORDINATOR,
    E.NOT_COORDINATOR: Remedy.COORDINATOR,
    E.REQUEST_TIMED_OUT: Remedy.UNSURE,
    E.NETWORK_EXCEPTION: Remedy.UNSURE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Remedy.UNSURE,
    E.KAFKA_STORAGE_ERROR: Remedy.UNSURE,
}
"""Source: Kafka's retriable errors, but CORRUPT_MESSAGE (damage does not heal by being read again)
and those of calls not made here.
"""

ADVICE: dict[ErrorCode, str] = {
    E.OFFSET_OUT_OF_RANGE: "ask for the earliest and latest offset, and begin between them",
    E.CORRUPT_MESSAGE: "the broker's log is damaged, or the batch that was sent is; its own log says where",
    E.UNKNOWN_TOPIC_OR_PARTITION: "create it, or look at the name and the number",
    E.UNKNOWN_TOPIC_ID: "the topic was deleted; look at the name",
    E.LEADER_NOT_AVAILABLE: "its brokers may be down",
    E.MESSAGE_TOO_LARGE: "send smaller batches, or raise the topic's max.message.bytes",
    E.RECORD_LIST_TOO_LARGE: "send smaller batches, or raise the topic's max.message.bytes",
    E.INVALID_RECORD: "the topic refuses such records; a compacted one wants keys",
    E.INVALID_TIMESTAMP: "look at the records' times, or at the topic's message.timestamp settings",
    E.INVALID_TOPIC_EXCEPTION: "only letters, digits, '.', '_' and '-' make a topic's name, 249 of them at most",
    E.TOPIC_ALREADY_EXISTS: "use it, or take another name",
    E.INVALID_REPLICATION_FACTOR: "ask for no more replicas than there are brokers",
    E.INVALID_CONFIG: "look at the names and values of the settings",
    E.OUT_OF_ORDER_SEQUENCE_NUMBER: "a batch before this one is missing; begin with a new producer id",
    E.UNKNOWN_PRODUCER_ID: "begin with a new producer id",
    E.INVALID_PRODUCER_EPOCH: "another producer has taken over this id; begin with a new one",
    E.PRODUCER_FENCED: "another producer has taken over this id; begin with a new one",
    E.TOPIC_AUTHORIZATION_FAILED: "let this client's user do it",
    E.GROUP_AUTHORIZATION_FAILED: "let this client's user do it",
    E.CLUSTER_AUTHORIZATION_FAILED: "let this client's user do it",
    E.UNKNOWN_MEMBER_ID: "the group has members now, which commit for themselves: stop them, or take another group",
    E.ILLEGAL_GENERATION: "the group has members now, which commit for themselves: stop them, or take another group",
    E.REBALANCE_IN_PROGRESS: "the group has members now, which commit for themselves: stop them, or take another group",
    E.UNSUPPORTED_COMPRESSION_TYPE: "use a codec that this broker knows",
    E.UNSUPPORTED_FOR_MESSAGE_FORMAT: "the topic keeps an old message format",
    E.POLICY_VIOLATION: "the broker's operator has set this limit",
}


def name_of(code: int) -> str:
    """The error's name in the protocol; its number, if it is one that we don't know."""
    known = _known(code)
    return f"error {code}" if known is None else known.name


def _known(code: int) -> ErrorCode | None:
    return E(code) if code in E._value2member_map_ else None


def refused(
    code: int, api: str, broker: str, place: TopicPartition | None = None, message: str | None = None, about: str = ""
) -> BrokerRefused:
    """The error to raise, or to keep, for an answer with this code. `message`: the broker's words;
    `about`: for what is no partition.
    """
    kind = FetchOutOfRange if (code, api) == (E.OFFSET_OUT_OF_RANGE, "Fetch") else BrokerRefused
    what = f" of {place or about}" if place or about else ""
    known = _known(code)
    words = "; ".join(filter(None, (message, ADVICE.get(known) if known is not None else None)))
    topic, partition = place or (None, None)
    sentence = f"{broker}: {api}{what}: {name_of(code)}{f' ({words})' if words else ''}"
    made = kind(sentence, broker=broker, api=api, topic=topic, partition=partition)
    made.code = code
    made.code_name = name_of(code)
    return made


def wrong_answer(api: str, broker: str, what: str) -> BadAnswer:
    """The error to raise for an answer that is well formed, but can't be one to what was asked."""
    return BadAnswer(f"{broker}: {api}: the answer {what}", broker=broker, api=api)


def remedy_of(error: ClientError) -> Remedy:
    """What to do about an error that a call has met."""
    if isinstance(error, BrokerRefused):
        known = _known(error.code)
        return Remedy.FATAL if known is None else REMEDIES.get(known, Remedy.FATAL)
    if isinstance(error, ConnectionLost):
        return Remedy.UNSURE if error.sent else Remedy.REFRESH
    return Remedy.REFRESH if isinstance(error, BrokerUnreachable) else Remedy.FATAL
