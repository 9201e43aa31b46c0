"""The append path: validates what a producer sends for one partition, converts it if it must, and
appends it.

A batch that needs no look at its records is appended at once, as are small ones. Others are
deferred to later turns of the event loop (`append_queue`), copied out of the request's buffer.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Final

from kqueue.base.config import TopicConfig
from kqueue.base.errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecord,
    RecordTooLarge,
    TransactionalIdAuthorizationFailed,
)
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.broker.produce.produce_transaction import ProduceTransaction
from kqueue.broker.replicas.partition import Partition
from kqueue.log.results import AppendResult
from kqueue.records.batch import TRANSACTIONAL, BatchHeader, decompressed, read_header
from kqueue.records.batch_validation import (
    ValidationLevel,
    ValidationRules,
    needs_record_validation,
    unreadable,
    validate_header,
)
from kqueue.records.codecs import CODECS
from kqueue.records.format_conversion import up_convert
from kqueue.records.recompression import recompress
from kqueue.records.record import decode_records
from kqueue.records.record_validation import RecordValidator

RECORDS_AT_ONCE_MAX: Final = 1000
BYTES_AT_ONCE_MAX: Final = 64 * 1024
DECOMPRESSED_AT_ONCE_MAX: Final = 1024 * 1024
"""The records of a batch within these three bounds are read within its request, in a few ms."""
RECOMPRESSED_AT_ONCE_MAX: Final = 16 * 1024
"""A batch up to this size is recompressed within its request: 2 ms at zstd's level 22."""
RECORDS_PER_STEP = 100
BYTES_PER_RECORD = 10_000  # on average; larger records make smaller steps
PRODUCE_VERSION_BATCHES: Final = 3
"""From this version on each partition gets exactly one batch of magic 2, before a message set."""
CODEC_OF_PRODUCER = "producer"

ValidatedBatch = tuple[memoryview, BatchHeader]


class ProduceAppender:
    """Appends to the partitions of one topic by its settings; see `Topic.appender`."""

    def __init__(self, config: TopicConfig) -> None:
        codec = {"uncompressed": "none"}.get(config["compression.type"], config["compression.type"])
        self._codec = None if codec == CODEC_OF_PRODUCER else CODECS.get(codec)
        level = f"compression.{codec}.level"
        self._level: int | None = config[level] if level in config.broker.catalog.topic else None
        self.rules = ValidationRules(
            level=ValidationLevel(config["kqueue.records.validation"]),
            max_batch_bytes=config["max.message.bytes"],
            keys_required="compact" in config["cleanup.policy"],
            log_append_time=config["message.timestamp.type"] == "LogAppendTime",
            before_max_ms=config["message.timestamp.before.max.ms"],
            after_max_ms=config["message.timestamp.after.max.ms"],
            limit_bytes=config.broker["kqueue.max.decompressed.bytes"],
        )
        self._is_plain = self._codec is None and not self.rules.every_record

    def append(
        self,
        partition: Partition,
        records: memoryview | None,
        *,
        now_ms: int,
        produce_version: int,
        transaction: ProduceTransaction | None = None,
    ) -> AppendResult | Promise[AppendResult]:
        """Append the records of one Produce request for one partition.

        Args:
            records: overwritten in place with offsets and leader epoch; None or empty is invalid.
            now_ms: wall clock.
            transaction: that of the request; None: transactional batches are refused.

        Returns: where the records are, for a message set the first batch's base offset with the
            last one's end. A promise if the append is deferred: the records take long to read, or
            deferred appends of the partition precede them.
        Raises: RequestTimedOut: too many deferred appends. What `validate_header`,
            `RecordValidator`, `up_convert` and `Partition.append` raise. Nothing is appended
            if a check fails.
        """
        if records is None or not len(records):
            raise InvalidRecord("expected records for the partition, found none")
        # However quick it is: before the deferred ones its sequence numbers would be out of order.
        if partition.appends is not None:
            return self._defer(partition, records, now_ms, produce_version, transaction)
        if produce_version < PRODUCE_VERSION_BATCHES:
            # Message sets are always read record by record: they become batches of magic 2.
            if len(records) > BYTES_AT_ONCE_MAX:
                return self._defer(partition, records, now_ms, produce_version, transaction)
            return run_to_end(self._steps(partition, records, now_ms, produce_version, transaction))
        header = validate_header(records, self.rules, produce_version)
        if header.attributes & TRANSACTIONAL:
            _check_transaction(partition, header, transaction)
        # nearly every batch is plain; this is `_reads_records` without its calls
        plain = (
            self._is_plain and 0 <= header.base_timestamp <= header.max_timestamp <= now_ms + self.rules.after_max_ms
        )
        if plain or not self._reads_records(header, now_ms):
            return partition.append(records, header)
        changes_codec = self._codec is not None and header.codec_id != self._codec.id
        at_once = min(self.rules.limit_bytes, RECOMPRESSED_AT_ONCE_MAX if changes_codec else DECOMPRESSED_AT_ONCE_MAX)
        if header.record_count <= RECORDS_AT_ONCE_MAX and len(records) <= min(BYTES_AT_ONCE_MAX, at_once):
            try:
                return partition.append(*run_to_end(self._read_records(records, header, now_ms, at_once)))
            # Small on the wire, large once decompressed: only now is it known that it takes long.
            # It starts again in slices, unless it is above what the topic may decompress.
            except DecompressedTooLarge as error:
                if self.rules.limit_bytes <= at_once:
                    raise unreadable(error) from None
        return self._defer(partition, records, now_ms, produce_version, transaction)

    def append_now(
        self, partition: Partition, records: memoryview, *, now_ms: int, produce_version: int
    ) -> AppendResult:
        """`append` at once, however long it takes."""
        return run_to_end(self._steps(partition, records, now_ms, produce_version))

    def _defer(
        self,
        partition: Partition,
        records: memoryview,
        now_ms: int,
        produce_version: int,
        transaction: ProduceTransaction | None,
    ) -> Promise[AppendResult]:
        # the request's buffer is reused when its handler returns
        copy = memoryview(bytearray(records))
        return partition.defer_append(self._steps(partition, copy, now_ms, produce_version, transaction), len(copy))

    def _steps(
        self,
        partition: Partition,
        records: memoryview,
        now_ms: int,
        produce_version: int,
        transaction: ProduceTransaction | None = None,
    ) -> SlicedWork[AppendResult]:
        if produce_version >= PRODUCE_VERSION_BATCHES:
            checked_batch, header = yield from self._check(records, now_ms, produce_version)
            if header.attributes & TRANSACTIONAL:  # here, because a marker may have been appended since
                _check_transaction(partition, header, transaction)
            return partition.append(checked_batch, header)
        rules = self.rules
        batches = yield from up_convert(records, max_batch_bytes=rules.max_batch_bytes, limit_bytes=rules.limit_bytes)
        checked: list[ValidatedBatch] = []
        for batch in batches:
            checked += [(yield from self._check(memoryview(batch), now_ms, produce_version))]
        # Nothing is appended before all have passed: a message set that fails a check leaves
        # nothing.
        for _, header in checked:
            if header.attributes & TRANSACTIONAL:
                _check_transaction(partition, header, transaction)
        appended = [
            partition.append(batch, header, admitted=number > 0) for number, (batch, header) in enumerate(checked)
        ]
        return appended[-1]._replace(base_offset=appended[0].base_offset)

    def _check(self, batch: memoryview, now_ms: int, produce_version: int) -> SlicedWork[ValidatedBatch]:
        header = validate_header(batch, self.rules, produce_version)
        if not self._reads_records(header, now_ms):
            return batch, header
        try:
            return (yield from self._read_records(batch, header, now_ms, self.rules.limit_bytes))
        except DecompressedTooLarge as error:
            raise unreadable(error) from None

    def _reads_records(self, header: BatchHeader, now_ms: int) -> bool:
        return needs_record_validation(header, self.rules, now_ms) or (
            self._codec is not None and header.codec_id != self._codec.id
        )

    def _read_records(
        self, batch: memoryview, header: BatchHeader, now_ms: int, limit_bytes: int
    ) -> SlicedWork[ValidatedBatch]:
        """Validate each record if the rules ask for it, and recompress the batch if the topic has
        another codec.

        Raises: DecompressedTooLarge: above `limit_bytes`. RecordTooLarge: the topic's codec makes
            the batch larger than it may be. What `RecordValidator.finish` raises.
        """
        codec = self._codec if self._codec is not None and header.codec_id != self._codec.id else None
        data: bytes | None = None
        try:
            if needs_record_validation(header, self.rules, now_ms):
                data = yield partial(decompressed, batch, 0, header, limit_bytes)
                header = yield from self._validate_records(batch, header, data, now_ms)
            if codec is None:
                return batch, header
            rebuilt = memoryview((yield partial(recompress, batch, header, codec, self._level, limit_bytes, data)))
        except DecompressedTooLarge:
            raise
        except CorruptBatch as error:
            raise unreadable(error) from None
        if len(rebuilt) > self.rules.max_batch_bytes:
            size_max = self.rules.max_batch_bytes
            raise RecordTooLarge(
                f"a batch of {len(rebuilt)} bytes after compression with {codec.name}, where max.message.bytes is "
                f"{size_max}"
            )
        return rebuilt, read_header(rebuilt)

    def _validate_records(
        self, batch: memoryview, header: BatchHeader, data: bytes, now_ms: int
    ) -> SlicedWork[BatchHeader]:
        """Validate each record of `data`; return the header, with the records' greatest time."""
        checker = RecordValidator(header, self.rules, now_ms)
        records = decode_records(data, header)
        step = max(
            min(RECORDS_PER_STEP, RECORDS_PER_STEP * header.record_count * BYTES_PER_RECORD // (len(data) + 1)), 1
        )
        while chunk := list(islice(records, step)):
            checker.take(chunk)
            yield None
        return checker.finish(batch)


def _check_transaction(partition: Partition, header: BatchHeader, transaction: ProduceTransaction | None) -> None:
    """Check a transactional batch that is appended now.

    Raises: TransactionalIdAuthorizationFailed: the request names no transactional id, as Kafka
        answers. InvalidRecord: no producer. What `ProduceTransaction.check` raises.
    """
    if transaction is None:
        raise TransactionalIdAuthorizationFailed("transactional records need the transactional id of their producer")
    if header.producer_id < 0:
        raise InvalidRecord("transactional records without a producer id")
    transaction.check(partition, header)
