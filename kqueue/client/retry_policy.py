"""The retry action for each error, the budget of retries of one call, and error messages."""

from __future__ import annotations

import enum
import random
import time

from kqueue.client.deadline import Deadline
from kqueue.client.errors import (
    BadAnswer,
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    DeadlinePassed,
    FetchOutOfRange,
)
from kqueue.client.options import ClientOptions
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.error_codes import ErrorCode

E = ErrorCode


class RetryAction(enum.Enum):
    """The actions of a call after an error. Errors that `RETRY_ACTIONS` does not list are FAIL."""

    RETRY = "retry at the same broker after a pause"
    REFRESH_METADATA = "refresh the metadata and retry at the new leader"
    FIND_COORDINATOR = "find the coordinator again"
    WAIT_FOR_TOPIC = "as REFRESH_METADATA, but only for `missing_topic_ms`: the topic probably does not exist"
    RETRY_IF_REPEATABLE = "as REFRESH_METADATA, if the call is repeatable: the broker may have executed it"
    FAIL = "a retry cannot succeed"


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
"""Source: Kafka's retriable errors.

Without CORRUPT_MESSAGE (a second read returns the same damage) and without the errors of requests
that this client does not send.
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
    E.TRANSACTIONAL_ID_NOT_FOUND: "look at the id; `kqueue transactions list` shows all",
    E.INVALID_PRODUCER_EPOCH: "a newer producer took over, or the transaction has ended; look at the epoch",
    E.TRANSACTION_COORDINATOR_FENCED: "give the coordinator epoch that the partition has, or a higher one",
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
    """Return the error's name in the protocol, or its number if the code is unknown."""
    known = _known(code)
    return f"error {code}" if known is None else known.name


def _known(code: int) -> ErrorCode | None:
    return E(code) if code in E._value2member_map_ else None


def response_error(
    code: int,
    api: str,
    broker: str,
    topic_partition: TopicPartition | None = None,
    message: str | None = None,
    about: str = "",
) -> BrokerRefused:
    """Return the error for a response with this code; the caller raises or stores it.

    Args:
        message: the broker's own message.
        about: the subject, where it is not a partition.
    """
    error_class = FetchOutOfRange if (code, api) == (E.OFFSET_OUT_OF_RANGE, "Fetch") else BrokerRefused
    subjects = [str(subject) for subject in (topic_partition, about) if subject]
    subject = f" of {', '.join(subjects)}" if subjects else ""
    known = _known(code)
    details = "; ".join(filter(None, (message, ADVICE.get(known) if known is not None else None)))
    topic, partition = topic_partition or (None, None)
    text = f"{broker}: {api}{subject}: {name_of(code)}{f' ({details})' if details else ''}"
    error = error_class(text, broker=broker, api=api, topic=topic, partition=partition)
    error.code = code
    error.code_name = name_of(code)
    error.broker_message = message
    return error


def bad_answer(api: str, broker: str, what: str) -> BadAnswer:
    """Return the error for a well-formed response that does not match its request."""
    return BadAnswer(f"{broker}: {api}: the answer {what}", broker=broker, api=api)


def retry_action(error: ClientError) -> RetryAction:
    """Return the action that an error calls for."""
    if isinstance(error, BrokerRefused):
        known = _known(error.code)
        return RetryAction.FAIL if known is None else RETRY_ACTIONS.get(known, RetryAction.FAIL)
    if isinstance(error, ConnectionLost):
        return RetryAction.RETRY_IF_REPEATABLE if error.sent else RetryAction.REFRESH_METADATA
    return RetryAction.REFRESH_METADATA if isinstance(error, BrokerUnreachable) else RetryAction.FAIL


class RetryBudget:
    """The retries that one call has left, and the pause before each.

    `missing_ms`: replaces `missing_topic_ms` of the options.
    """

    def __init__(self, options: ClientOptions, deadline: Deadline, missing_ms: float | None = None) -> None:
        self._options = options
        self._missing_ms = options.missing_topic_ms if missing_ms is None else missing_ms
        self._deadline = deadline
        self._missing_until: Deadline | None = None
        self._pause_ms = float(options.retry_backoff_ms)

    def allows(self, error: ClientError, *, repeatable: bool) -> bool:
        """Return whether a retry makes sense after this error, provided that time remains."""
        action = retry_action(error)
        if action is RetryAction.WAIT_FOR_TOPIC:
            self._missing_until = self._missing_until or Deadline(self._missing_ms)
            return not self._missing_until.is_expired
        return repeatable if action is RetryAction.RETRY_IF_REPEATABLE else action is not RetryAction.FAIL

    def pause(self) -> bool:
        """Sleep before a retry, longer each time.

        Returns: False, without sleeping, if the pause would exceed the deadline.
        """
        pause_s = self._pause_ms * random.uniform(0.8, 1.2) / 1000
        self._pause_ms = min(self._pause_ms * 2, self._options.retry_backoff_max_ms)
        if pause_s >= self._deadline.remaining_s:
            return False
        time.sleep(pause_s)
        return True

    def passed(self, last: ClientError, first: ClientError | None = None) -> DeadlinePassed:
        """Return the error to raise when no time remains.

        Args:
            first: the error of the first attempt, which may have caused all later ones.
        """
        first_text = "" if first is None or _kind(first) == _kind(last) else f"; the first: {first}"
        error = DeadlinePassed(
            f"no success within {self._deadline.timeout_ms:g} ms; the last that was met: {last}{first_text}",
            broker=last.broker, api=last.api, topic=last.topic, partition=last.partition,
        )  # fmt: skip
        error.__cause__ = last
        return error


def _kind(error: ClientError) -> object:
    return error.code if isinstance(error, BrokerRefused) else type(error)
