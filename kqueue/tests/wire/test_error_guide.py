"""Tests of the advice on errors; docs.test_error_codes has those of what it names."""

from __future__ import annotations

from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import RETRIABLE, ErrorCode
from kqueue.wire.error_guide import ERROR_ADVICE, ErrorAdvice


@for_each("code,advice", ERROR_ADVICE.items())
def test_a_row_is_a_line_without_an_end_of_its_sentence(code: ErrorCode, advice: ErrorAdvice) -> None:
    for text in advice:
        assert text == text.strip().rstrip(".")
        assert "\n" not in text
        assert "|" not in text


def test_errors_that_clients_can_do_nothing_about_are_retriable_or_end_by_themselves() -> None:
    left_to_clients = {code for code, advice in ERROR_ADVICE.items() if advice.action.startswith("none")}
    by_themselves = {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
        ErrorCode.FENCED_STATE_EPOCH,
    }
    assert left_to_clients - RETRIABLE == by_themselves
