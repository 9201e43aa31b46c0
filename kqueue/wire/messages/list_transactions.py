"""ListTransactions (key 66): ask for the ids of transactions."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, string, struct


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[str] = field(array(string))
    producer_id_filters: list[int] = field(array(int64))
    duration_filter: int = field(int64, "1+", default=-1)
    transactional_id_pattern: str | None = field(string, "2+", nullable="2+", default=None)


@struct
class TransactionState:
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    transaction_state: str = field(string)


@message(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    unknown_state_filters: list[str] = field(array(string))
    transaction_states: list[TransactionState] = field(array(TransactionState))
