"""Validation of one produced batch in a single call, in the steps of the broker."""

from __future__ import annotations

from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import BatchHeader, decompressed
from kqueue.records.batch_validation import (
    PRODUCE_VERSION_NEWEST,
    ValidationRules,
    needs_record_validation,
    unreadable,
    validate_header,
)
from kqueue.records.record import decode_records
from kqueue.records.record_validation import RecordValidator


def validate_batch(
    buf: memoryview, rules: ValidationRules, *, now_ms: int, produce_version: int = PRODUCE_VERSION_NEWEST
) -> BatchHeader:
    """Return the header of the batch after all checks that its rules and times ask for."""
    header = validate_header(buf, rules, produce_version)
    if not needs_record_validation(header, rules, now_ms):
        return header
    validator = RecordValidator(header, rules, now_ms)
    try:
        validator.take(decode_records(decompressed(buf, 0, header, rules.limit_bytes), header))
    except CorruptBatch as error:
        raise unreadable(error) from None
    return validator.finish(buf)
