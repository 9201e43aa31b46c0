from __future__ import annotations

from kqueue.admin.transaction_states import OPEN_STATES, STATES, is_missing
from kqueue.base.errors import KqueueError
from kqueue.client.retry_policy import response_error


def test_only_an_unknown_transactional_id_is_missing() -> None:
    assert is_missing(response_error(105, "DescribeTransactions", "b:1"))
    assert not is_missing(response_error(15, "DescribeTransactions", "b:1"))
    assert not is_missing(KqueueError("no code"))


def test_open_states_are_states() -> None:
    assert set(OPEN_STATES) < set(STATES)
