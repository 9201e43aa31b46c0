"""Records as rows of a table: the columns, and the selection of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypedDict

from kqueue.base.errors import CorruptBatch
from kqueue.base.names import did_you_mean
from kqueue.log.recovery.damage import Damage
from kqueue.log.scanner.batch_scanner import AnyHeader
from kqueue.log_tools.decoders import VALUE_DECODERS, DecodeError
from kqueue.log_tools.segments import ReadableBatch
from kqueue.log_tools.transaction_outcomes import TransactionOutcomes
from kqueue.log_tools.valid_batches import OnDamage, damage_reporter
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader
from kqueue.records.record import Headers

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
ROW_BYTES = 100  # approximate size of a row without key, value and headers


class Row(NamedTuple):
    """One record. Times in ms since 1970; None where the record or its format has no such value.

    `timestamp_type`: CreateTime or LogAppendTime. `key`, `value`: bytes, or their decoded form.
    """

    topic: str | None
    partition: int | None
    offset: int
    timestamp: int | None
    timestamp_type: str | None
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int | None
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The records to read: offsets and times (ms) from the first bound on and below the second.

    A bound of None does not limit. With a time bound, records without a time are left out.
    `read_committed`: leave out open and aborted transactions. `on_damage`: as for
    `LogFolder.batches`. `key_as`, `value_as`: names of DECODERS.

    Raises: ValueError: there is no such decoder.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    read_committed: bool = False
    key_as: str = "binary"
    value_as: str = "binary"
    on_damage: OnDamage = "raise"

    def __post_init__(self) -> None:
        decoder(self.key_as)
        decoder(self.value_as)


class SelectionArgs(TypedDict, total=False):
    """The fields of `Selection` as keyword arguments."""

    start_offset: int | None
    end_offset: int | None
    since_ms: int | None
    until_ms: int | None
    read_committed: bool
    key_as: str
    value_as: str
    on_damage: OnDamage


# --- what keys and values are


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise DecodeError("it is nested too deeply") from None


NUMBERS = ("short", "integer", "long", "float", "double")  # in the format of Kafka's serializers
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "binary": bytes,
    "utf8": _text,
    "json": _json,
    **{name: VALUE_DECODERS[name] for name in NUMBERS},
}


def decoder(name: str) -> Callable[[bytes], Any]:
    """Return the function that decodes keys or values.

    Raises: ValueError: there is no such name.
    """
    if name not in DECODERS:
        raise ValueError(
            f"{name!r} is no form of keys and values{did_you_mean(name, DECODERS)} (there are: {', '.join(DECODERS)})"
        )
    return DECODERS[name]


# --- rows


class PartitionLog(Protocol):
    """A log that rows are read from, such as a `LogFolder`."""

    topic: str | None
    partition: int | None

    @property
    def location(self) -> str:
        """The partition's folder, for messages."""
        ...

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        ...

    def batches(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        check: bool = True,
        on_damage: OnDamage = "raise",
    ) -> Iterator[ReadableBatch]:
        """Return the batches; see `LogFolder.batches`."""


def rows(log: PartitionLog, selection: Selection, progress: Callable[[int], None] | None = None) -> Iterator[Row]:
    """Return the rows of a partition, in offset order.

    Memory: one batch, and with `read_committed` three numbers per aborted transaction.

    Args:
        progress: receives the bytes of log that were read since its last call.
    Raises:
        CorruptBatch: names file and position.
        DecodeError: a key or value is not in the form that the selection names.
        UnsupportedCodec, StorageFailed.
    """
    key_of, value_of = decoder(selection.key_as), decoder(selection.value_as)
    return _rows(log, selection, key_of, value_of, progress or (lambda size: None))


def _rows(
    log: PartitionLog,
    selection: Selection,
    key_of: Callable[[bytes], Any],
    value_of: Callable[[bytes], Any],
    progress: Callable[[int], None],
) -> Iterator[Row]:
    batches, start, end = selected_batches(log, selection, progress)
    since, until = selection.since_ms, selection.until_ms
    for batch in batches:
        try:
            yield from _of_batch(log, batch, start, end, since, until, key_of, value_of)
        except CorruptBatch as error:
            report_damaged_records(batch, error, selection)


def selected_batches(
    log: PartitionLog, selection: Selection, progress: Callable[[int], None]
) -> tuple[Iterator[ReadableBatch], int, int | None]:
    """Return the batches that may hold selected records, and the bounds of the selected offsets.

    Args:
        progress: receives the bytes of each batch.
    Returns: batches; first offset; end offset, exclusive, None: no bound.
    Raises: as `rows`, now or while the batches are read.
    """
    start = max(selection.start_offset or 0, log.start_offset)
    end, transactions = selection.end_offset, None
    if selection.read_committed:
        transactions = TransactionOutcomes(log.batches(check=False, on_damage=selection.on_damage))
        if transactions.first_unstable_offset is not None:
            end = transactions.first_unstable_offset if end is None else min(end, transactions.first_unstable_offset)
    batches = log.batches(start_offset=start, end_offset=end, on_damage=selection.on_damage)
    return _data_batches(batches, transactions, selection.since_ms, progress), start, end


def _data_batches(
    batches: Iterator[ReadableBatch],
    transactions: TransactionOutcomes | None,
    since: int | None,
    progress: Callable[[int], None],
) -> Iterator[ReadableBatch]:
    for batch in batches:
        progress(batch.size)
        if batch.is_control or (transactions is not None and transactions.is_aborted(batch)):
            continue
        if since is None or batch.unit.max_timestamp >= since:
            yield batch


def report_damaged_records(batch: ReadableBatch, error: CorruptBatch, selection: Selection) -> None:
    """Report a batch with a right checksum and damaged records, as the selection asks.

    Raises: `error`, if the selection raises on damage.
    """
    if selection.on_damage == "raise":
        raise error
    damage_reporter(selection.on_damage)(
        Damage(batch.location, batch.position, "records as its header counts them", str(error))
    )


def timestamp_type(unit: AnyHeader) -> str | None:
    """Return the timestamp type of a batch's records; None: its format has no timestamps."""
    return LOG_APPEND_TIME if unit.is_log_append_time else CREATE_TIME if unit.magic else None


def decode_error(log: PartitionLog, offset: int, error: Exception) -> DecodeError:
    """Return the error for a key or value that could not be decoded."""
    return DecodeError(f"{log.location}, offset {offset}: a key or value is not what it was said to be: {error}")


def _of_batch(
    log: PartitionLog,
    batch: ReadableBatch,
    start: int,
    end: int | None,
    since: int | None,
    until: int | None,
    key_of: Callable[[bytes], Any],
    value_of: Callable[[bytes], Any],
) -> Iterator[Row]:
    topic, partition, unit = log.topic, log.partition, batch.unit
    timestamp: int | None
    sequence: int | None
    kind = timestamp_type(unit)
    epoch = producer_id = producer_epoch = None
    if isinstance(unit, BatchHeader):
        epoch = unit.leader_epoch if unit.leader_epoch >= 0 else None
        if unit.producer_id >= 0:
            producer_id, producer_epoch = unit.producer_id, unit.producer_epoch
    for offset, timestamp, key, value, headers, sequence in batch.records(limit_bytes=DECOMPRESSED_BYTES_MAX):
        if offset < start or (end is not None and offset >= end):
            continue
        if (since is not None and timestamp < since) or (until is not None and not 0 <= timestamp < until):
            continue
        try:
            key = None if key is None else key_of(key)
            value = None if value is None else value_of(value)
        except (ValueError, DecodeError) as error:
            raise decode_error(log, offset, error) from None
        if timestamp < 0:
            timestamp = None
        if sequence < 0:
            sequence = None
        yield Row(
            topic, partition, offset, timestamp, kind, key, value, headers, epoch, producer_id, producer_epoch, sequence
        )


def size_of(row: Row) -> int:
    """Return the approximate size of a row in bytes."""
    size = ROW_BYTES
    for part in (row.key, row.value):
        size += len(part) if isinstance(part, (bytes, str)) else 8
    for name, value in row.headers:
        size += len(name) + len(value or b"") + 16
    return size
