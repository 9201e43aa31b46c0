"""Batches as producers send them, and their validation at a fixed time."""

from __future__ import annotations

from kqueue.records.batch import HEADER, read_header, set_max_timestamp
from kqueue.records.batch_validation import ValidationLevel, ValidationRules
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.tests.records.validation import validate_batch

NOW = 1_700_000_000_000
DAY = 86_400_000
EVERY = ValidationRules(ValidationLevel.FULL)


def produced(
    count: int = 3, codec: str = "none", *, time: int = NOW, key: bytes | None = b"k", **settings: object
) -> bytearray:
    records = [Record(offset, time, key, b"value", ()) for offset in range(count)]
    return build_batch(records, codec=codec, **settings)


def sealed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields, and a checksum that agrees."""
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    time = fields.get("max_timestamp", read_max_timestamp(batch))
    set_max_timestamp(batch, 0, time)
    return batch


def read_max_timestamp(batch: bytearray) -> int:
    return int(HEADER.unpack_from(batch)[8])


def check(batch: bytes | bytearray, rules: ValidationRules, *, produce_version: int = 9) -> object:
    return validate_batch(memoryview(batch), rules, now_ms=NOW, produce_version=produce_version)
