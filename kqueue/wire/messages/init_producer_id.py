"""InitProducerId (key 22): get an id and epoch for an idempotent or transactional producer."""

from __future__ import annotations

from kqueue.schema import boolean, field, int16, int32, int64, message, string


@message(api_key=22, versions="0-6", flexible="2+", unstable=True)
class InitProducerIdRequest:
    transactional_id: str | None = field(string, nullable="0+")
    transaction_timeout_ms: int = field(int32)
    producer_id: int = field(int64, "3+", default=-1)
    producer_epoch: int = field(int16, "3+", default=-1)
    enable2_pc: bool = field(boolean, "6+")
    keep_prepared_txn: bool = field(boolean, "6+")


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = field(int32, ignorable=True)
    error_code: int = field(int16)
    producer_id: int = field(int64, default=-1)
    producer_epoch: int = field(int16)
    ongoing_txn_producer_id: int = field(int64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(int16, "6+", default=-1)
