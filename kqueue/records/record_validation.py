"""Validation of each record of a produced batch, in parts, so that long batches can yield between.

It collects the errors of all records and reports them together, in Kafka's words.
Source: Kafka's LogValidator.validateRecord, processRecordErrors.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.errors import InvalidRecord, InvalidTimestamp, RecordError
from kqueue.records.batch import BatchHeader, read_header, set_max_timestamp
from kqueue.records.batch_validation import ValidationRules
from kqueue.records.record import Record

NO_TIMESTAMP = -1
ERRORS_BYTES_MAX = 64 * 1024  # of error messages: a batch may have a million records
_SHOWN_MAX = 3


class RecordValidator:
    """Validates one batch: `take` its records in order, then `finish`.

    Args: now_ms: wall clock, ms since 1970.
    """

    __slots__ = (
        "_bad_count",
        "_errors",
        "_errors_bytes",
        "_greatest",
        "_has_bad_time",
        "_header",
        "_keys_required",
        "_newest",
        "_oldest",
    )

    def __init__(self, header: BatchHeader, rules: ValidationRules, now_ms: int) -> None:
        self._header = header
        self._keys_required = rules.keys_required
        self._oldest: float = float("-inf") if rules.log_append_time else now_ms - rules.before_max_ms
        self._newest: float = float("inf") if rules.log_append_time else now_ms + rules.after_max_ms
        self._greatest = NO_TIMESTAMP
        self._errors: list[RecordError] = []
        self._errors_bytes = self._bad_count = 0
        self._has_bad_time = False

    def take(self, records: Iterable[Record]) -> None:
        """Check the next records."""
        greatest, oldest, newest, keys_required = self._greatest, self._oldest, self._newest, self._keys_required
        for record in records:
            time = record[1]
            if time > greatest:
                greatest = time
            if keys_required and record[2] is None:
                self._add_error(record[0], "Compacted topic cannot accept message without key")
            elif time != NO_TIMESTAMP and not oldest <= time <= newest:
                self._has_bad_time = True
                within = f"[{int(oldest)}, {int(newest)}]"
                self._add_error(
                    record[0],
                    f"Timestamp {time} of message with offset {record[0]} is out of range. The timestamp should be "
                    f"within {within}",
                )
        self._greatest = greatest

    def _add_error(self, index: int, message: str) -> None:
        self._bad_count += 1
        if self._errors_bytes < ERRORS_BYTES_MAX:
            self._errors_bytes += len(message)
            self._errors.append(RecordError(index, message))

    def finish(self, buf: memoryview) -> BatchHeader:
        """Return the header, with the records' greatest time (at least -1) as max timestamp.

        A different max timestamp is replaced in place.
        Args: buf: the whole batch; writable if the max timestamp can differ.
        Raises: InvalidTimestamp, InvalidRecord: some records are refused; `record_errors` lists
            them, up to ERRORS_BYTES_MAX of messages.
        """
        if self._has_bad_time:
            raise InvalidTimestamp("One or more records have been rejected due to invalid timestamp", self._errors)
        if self._bad_count:
            shown = ", ".join(
                f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
                for error in self._errors[:_SHOWN_MAX]
            )
            raise InvalidRecord(
                f"One or more records have been rejected due to {self._bad_count} record errors in total, "
                f"and only showing the first three errors at most: [{shown}]",
                self._errors,
            )
        if self._greatest == self._header.max_timestamp:
            return self._header
        set_max_timestamp(buf, 0, self._greatest)
        return read_header(buf)
