from __future__ import annotations

from kqueue.client import TopicPartition
from kqueue.client.errors import BadAnswer, BrokerRefused, BrokerUnreachable, ConnectionLost, FetchOutOfRange
from kqueue.client.retry_policy import (
    ADVICE,
    RETRY_ACTIONS,
    RetryAction,
    bad_answer,
    name_of,
    response_error,
    retry_action,
)
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

KAFKA_RETRIABLE = {
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89,
    100, 103, 106, 122, 123, 133,
}  # fmt: skip
"""Codes whose exception is a RetriableException in Kafka 4.3."""
NOT_ASKED_AGAIN = {
    "CORRUPT_MESSAGE",  # damage
    # there are no sessions
    "FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR",
    "PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE", "ELECTION_NOT_NEEDED",  # nor elections
    "SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH", "SHARE_SESSION_LIMIT_REACHED",  # nor share groups
}  # fmt: skip


def test_kafkas_retriable_errors_have_a_remedy_or_a_reason() -> None:
    not_asked_again = {ErrorCode(number).name for number in KAFKA_RETRIABLE.difference(RETRY_ACTIONS)}
    assert not_asked_again == NOT_ASKED_AGAIN
    assert set(RETRY_ACTIONS) - KAFKA_RETRIABLE == {ErrorCode.BROKER_NOT_AVAILABLE}
    assert RetryAction.FAIL not in RETRY_ACTIONS.values()


@for_each("code", ErrorCode)
def test_each_error_has_its_remedy_and_its_words(code: ErrorCode) -> None:
    error = response_error(code, "Produce", "b:1", TopicPartition("t", 3), "said so")
    assert retry_action(error) is RETRY_ACTIONS.get(code, RetryAction.FAIL)
    advice = f"; {ADVICE[code]}" if code in ADVICE else ""
    assert str(error) == f"b:1: Produce of t-3: {code.name} (said so{advice})"
    assert (error.code, error.code_name) == (code, code.name)
    assert (error.broker, error.api, error.topic, error.partition) == ("b:1", "Produce", "t", 3)


def test_an_error_that_nobody_knows_is_final_and_has_its_number() -> None:
    error = response_error(9999, "Metadata", "b:1", about="topic 't'")
    assert (str(error), retry_action(error), name_of(9999)) == (
        "b:1: Metadata of topic 't': error 9999",
        RetryAction.FAIL,
        "error 9999",
    )


def test_only_a_fetch_is_out_of_range_in_its_own_way() -> None:
    assert type(response_error(1, "Fetch", "b:1")) is FetchOutOfRange
    assert type(response_error(1, "DeleteRecords", "b:1")) is BrokerRefused


def test_connection_errors_have_a_retry_action() -> None:
    lost = ConnectionLost("gone")
    assert retry_action(lost) is RetryAction.RETRY_IF_REPEATABLE
    lost.sent = False
    assert retry_action(lost) is RetryAction.REFRESH_METADATA
    assert retry_action(BrokerUnreachable("nobody")) is RetryAction.REFRESH_METADATA
    assert retry_action(BadAnswer("noise")) is RetryAction.FAIL
    assert str(bad_answer("Fetch", "b:1", "is odd")) == "b:1: Fetch: the answer is odd"
