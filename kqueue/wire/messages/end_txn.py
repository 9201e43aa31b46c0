"""EndTxn (key 26): commit or abort a transaction."""

from __future__ import annotations

from kqueue.schema import boolean, field, int16, int32, int64, message, string


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = field(string)
    producer_id: int = field(int64)
    producer_epoch: int = field(int16)
    committed: bool = field(boolean)


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    producer_id: int = field(int64, "5+", default=-1, ignorable=True)
    producer_epoch: int = field(int16, "5+", default=-1, ignorable=True)
