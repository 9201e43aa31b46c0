from __future__ import annotations

from kqueue.api.transaction_errors import transaction_code
from kqueue.base.errors import ConcurrentTransactions, ProducerFenced
from kqueue.wire.error_codes import ErrorCode


def test_older_clients_know_a_fenced_producer_by_its_epoch() -> None:
    assert transaction_code(ProducerFenced("x"), knows_fenced=True) is ErrorCode.PRODUCER_FENCED
    assert transaction_code(ProducerFenced("x"), knows_fenced=False) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert transaction_code(ConcurrentTransactions("x"), knows_fenced=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert transaction_code(None, knows_fenced=False) is ErrorCode.NONE
