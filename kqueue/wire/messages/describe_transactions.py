"""DescribeTransactions (key 65): ask for the state of transactions."""

from __future__ import annotations

from kqueue.schema import array, field, int16, int32, int64, message, string, struct


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str] = field(array(string))


@struct
class TopicData:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class TransactionState:
    error_code: int = field(int16)
    transactional_id: str = field(string)
    transaction_state: str = field(string)
    transaction_timeout_ms: int = field(int32)
    transaction_start_time_ms: int = field(int64)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    topics: list[TopicData] = field(array(TopicData))


@message(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: int = field(int32)
    transaction_states: list[TransactionState] = field(array(TransactionState))
