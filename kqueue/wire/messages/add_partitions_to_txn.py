"""AddPartitionsToTxn (key 24): make partitions part of a transaction."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, int64, message, string, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = field(string)
    partitions: list[int] = field(array(int32))


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = field(string, "4+")
    producer_id: int = field(int64, "4+")
    producer_epoch: int = field(int16, "4+")
    verify_only: bool = field(boolean, "4+")
    topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic), "4+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = field(array(AddPartitionsToTxnTransaction), "4+")
    v3_and_below_transactional_id: str = field(string, "0-3")
    v3_and_below_producer_id: int = field(int64, "0-3")
    v3_and_below_producer_epoch: int = field(int16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(array(AddPartitionsToTxnTopic), "0-3")


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field(int32)
    partition_error_code: int = field(int16)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = field(string)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(array(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = field(string, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(array(AddPartitionsToTxnTopicResult), "4+")


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(array(AddPartitionsToTxnResult), "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        array(AddPartitionsToTxnTopicResult), "0-3"
    )
