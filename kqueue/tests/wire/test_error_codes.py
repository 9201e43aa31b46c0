"""The table of error codes, against Kafka 4.3's org.apache.kafka.common.protocol.Errors."""

from __future__ import annotations

from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


@for_each(
    "number, name",
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (0, "NONE"),
        (2, "CORRUPT_MESSAGE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (74, "FENCED_LEADER_EPOCH"),
        (88, "UNSTABLE_OFFSET_COMMIT"),
        (100, "UNKNOWN_TOPIC_ID"),
        (133, "SHARE_SESSION_LIMIT_REACHED"),
    ],
)
def test_numbers_and_names_are_kafkas(number: int, name: str) -> None:
    assert ErrorCode(number).name == name


def test_the_numbers_have_no_gaps() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))
