"""What to do about each error that a broker may answer with: one table; and the words for those
that end a call.
"""

from __future__ import annotations

import enum

from kqueue.client.errors import (
    BadAnswer,
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    FetchOutOfRange,
)
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.error_codes import ErrorCode

E = ErrorCode


class RetryAction(enum.Enum):
    """What makes sense after an error; what `RETRY_ACTIONS` does not name is FATAL."""

    RETRY = "ask the same broker again, later"
    REFRESH_METADATA = "somebody else leads, or will: get new metadata, and ask who leads then"
    FIND_COORDINATOR = "look for the coordinator anew"
    WAIT_FOR_TOPIC = "as REFRESH, but not for long: most likely it does not exist"
    RETRY_IF_REPEATABLE = "as REFRESH, if doing it twice does no harm: it may have been done"
    FAIL = "asking again will not help"


RETRY_ACTIONS: dict[ErrorCode, RetryAction] = {
    E.LEADER_NOT_AVAILABLE: RetryAction.REFRESH_METADATA,
    E.NOT_LEADER_OR_FOLLOWER: RetryAction.REFRESH_METADATA,
    E.FENCED_LEADER_EPOCH: RetryAction.REFRESH_METADATA,
    E.UNKNOWN_LEADER_EPOCH: RetryAction.REFRESH_METADATA,
    E.REPLICA_NOT_AVAILABLE: RetryAction.REFRESH_METADATA,
    E.BROKER_NOT_AVAILABLE: RetryAction.REFRESH_METADATA,
    E.LISTENER_NOT_FOUND: RetryAction.REFRESH_METADATA,
    E.NOT_CONTROLLER: RetryAction.REFRESH_METADATA,
    E.INCONSISTENT_TOPIC_ID: RetryAction.REFRESH_METADATA,
    E.UNKNOWN_TOPIC_OR_PARTITION: RetryAction.WAIT_FOR_TOPIC,
    E.UNKNOWN_TOPIC_ID: RetryAction.WAIT_FOR_TOPIC,
    E.OFFSET_NOT_AVAILABLE: RetryAction.RETRY,
    E.NOT_ENOUGH_REPLICAS: RetryAction.RETRY,
    E.COORDINATOR_LOAD_IN_PROGRESS: RetryAction.RETRY,
    E.UNSTABLE_OFFSET_COMMIT: RetryAction.RETRY,
    E.THROTTLING_QUOTA_EXCEEDED: RetryAction.RETRY,
    E.CONCURRENT_TRANSACTIONS: RetryAction.RETRY,
    E.COORDINATOR_NOT_AVAILABLE: RetryAction.FIND_COORDINATOR,
    E.NOT_COORDINATOR: RetryAction.FIND_COORDINATOR,
    E.REQUEST_TIMED_OUT: RetryAction.RETRY_IF_REPEATABLE,
    E.NETWORK_EXCEPTION: RetryAction.RETRY_IF_REPEATABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: RetryAction.RETRY_IF_REPEATABLE,
    E.KAFKA_STORAGE_ERROR: RetryAction.RETRY_IF_REPEATABLE,
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


def response_error(
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


def bad_answer(api: str, broker: str, what: str) -> BadAnswer:
    """The error to raise for an answer that is well formed, but can't be one to what was asked."""
    return BadAnswer(f"{broker}: {api}: the answer {what}", broker=broker, api=api)


def retry_action(error: ClientError) -> RetryAction:
    """What to do about an error that a call has met."""
    if isinstance(error, BrokerRefused):
        known = _known(error.code)
        return RetryAction.FAIL if known is None else RETRY_ACTIONS.get(known, RetryAction.FAIL)
    if isinstance(error, ConnectionLost):
        return RetryAction.RETRY_IF_REPEATABLE if error.sent else RetryAction.REFRESH_METADATA
    return RetryAction.REFRESH_METADATA if isinstance(error, BrokerUnreachable) else RetryAction.FAIL
