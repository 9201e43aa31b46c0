"""The table of error codes, against Kafka 4.3's org.apache.kafka.common.protocol.Errors."""

from __future__ import annotations

import pytest

from kqueue.wire.error_codes import RETRIABLE, ErrorCode

KAFKA_RETRIABLE = {
    2,
    3,
    5,
    6,
    7,
    9,
    13,
    14,
    15,
    16,
    19,
    20,
    41,
    51,
    56,
    70,
    71,
    72,
    74,
    75,
    78,
    80,
    83,
    84,
    88,
    89,
    100,
    103,
    106,
    122,
    123,
    133,
}
"""Codes whose exception is a RetriableException in Kafka 4.3."""


@pytest.mark.parametrize(
    ("number", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (2, "CORRUPT_MESSAGE", True),
        (6, "NOT_LEADER_OR_FOLLOWER", True),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False),
        (74, "FENCED_LEADER_EPOCH", True),
        (88, "UNSTABLE_OFFSET_COMMIT", True),
        (100, "UNKNOWN_TOPIC_ID", True),
        (133, "SHARE_SESSION_LIMIT_REACHED", True),
    ],
)
def test_numbers_and_names_are_kafkas(number: int, name: str, retriable: bool) -> None:
    assert ErrorCode(number).name == name
    assert (ErrorCode(number) in RETRIABLE) is retriable


def test_the_numbers_have_no_gaps() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_the_retriable_codes_are_kafkas() -> None:
    assert {int(code) for code in RETRIABLE} == KAFKA_RETRIABLE
