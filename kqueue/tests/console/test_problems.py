from __future__ import annotations

import pytest

from kqueue.client.errors import (
    BadAnswer,
    BrokerRefused,
    BrokerUnreachable,
    ConnectionLost,
    DeadlinePassed,
    IncompatibleBroker,
    NotAuthenticated,
)
from kqueue.client.retry_policy import response_error
from kqueue.console.problems import TEXT_CHARACTERS_MAX, TooBusy, UnknownResource, problem_of, shortened
from kqueue.wire.error_codes import ErrorCode as E


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnknownResource("There is no topic 'a'."), 404),
        (TooBusy(), 503),
        (BrokerUnreachable("no"), 503),
        (ConnectionLost("no"), 503),
        (DeadlinePassed("no"), 503),
        (NotAuthenticated("no"), 403),
        (IncompatibleBroker("no"), 501),
        (BadAnswer("no"), 502),
        (ValueError("no"), 400),
        (KeyError("no"), 500),
        (response_error(E.TOPIC_AUTHORIZATION_FAILED, "Metadata", "b:1"), 403),
        (response_error(E.UNKNOWN_TOPIC_OR_PARTITION, "Metadata", "b:1"), 404),
        (response_error(E.TOPIC_ALREADY_EXISTS, "CreateTopics", "b:1"), 409),
        (response_error(E.SECURITY_DISABLED, "DescribeAcls", "b:1"), 409),
        (response_error(E.INVALID_CONFIG, "CreateTopics", "b:1", message="retention.ms: no"), 400),
    ],
)
def test_each_kind_of_error_has_a_status_and_a_sentence(error: Exception, status: int) -> None:
    problem = problem_of(error)
    assert problem.status == status
    assert problem.title
    assert problem.sentence


def test_the_brokers_own_sentence_is_shown() -> None:
    error = response_error(E.INVALID_CONFIG, "CreateTopics", "b:1", message="retention.ms: expected a number")
    assert isinstance(error, BrokerRefused)
    assert problem_of(error).sentence == "retention.ms: expected a number"


def test_an_error_inside_shows_nothing_of_itself() -> None:
    assert "password" not in " ".join(map(str, problem_of(KeyError("password"))))


def test_a_long_text_with_control_characters_is_one_short_line() -> None:
    text = shortened("a\x1b[2Jb\n" + "c" * 10_000)
    assert len(text) == TEXT_CHARACTERS_MAX
    assert "\x1b" not in text
    assert "\n" not in text
