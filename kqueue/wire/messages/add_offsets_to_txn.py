"""AddOffsetsToTxn (key 25): make a group's positions part of a transaction."""

from __future__ import annotations

from kqueue.schema import field, int16, int32, int64, message, string


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    group_id: str = field(string)


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
