"""Iteration over batches and message sets of any magic, as they are stored in a log."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.records.batch import (
    BATCH_OVERHEAD,
    DECOMPRESSED_BYTES_MAX,
    MAGIC_POSITION,
    BatchHeader,
    iter_records,
    read_header,
)
from kqueue.records.codecs.contract import Buffer
from kqueue.records.message_set import LegacyEntry, entry_records, read_entry
from kqueue.records.record import Record

AnyBatch = BatchHeader | LegacyEntry
"""Header of a batch of magic 2, or an entry of a message set.

Both have `size`, `magic`, `attributes`, `crc`, `codec_id`, `is_log_append_time`, `last_offset`,
`next_offset` and `max_timestamp`.
"""


def iter_any_batches(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, AnyBatch]]:
    """Yield (position, header or entry) of each whole batch in `buf[pos:end]`; stop at an
    incomplete one.

    Checksums are not compared.
    Raises: CorruptBatch: as `read_header` and `read_entry`.
    """
    end = len(buf) if end is None else end
    while end - pos > MAGIC_POSITION:
        batch: AnyBatch | None
        if buf[pos + MAGIC_POSITION] < 2:
            batch = read_entry(buf, pos, end)
        else:
            batch = read_header(buf, pos) if end - pos >= BATCH_OVERHEAD else None
        if batch is None or batch.size > end - pos:
            return
        yield pos, batch
        pos += batch.size


def iter_any_records(buf: Buffer, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield every record of batches and message sets, control records included; skip an incomplete
    last batch.

    Only the checksums of messages inside wrappers are compared.
    Args: limit_bytes: most bytes that one batch or wrapper may decompress to.
    Raises: CorruptBatch, UnsupportedCodec: as `iter_records`.
    """
    for pos, batch in iter_any_batches(buf):
        if isinstance(batch, BatchHeader):
            yield from iter_records(buf, pos, limit_bytes=limit_bytes)
        else:
            yield from entry_records(batch, limit_bytes)
