"""Down-conversion: records for Fetch versions below 4, which do not know batches of magic 2.

    0, 1    message sets of magic 0
    2, 3    message sets of magic 1
    0-2     size limits are hard: the last message is cut off, as these clients expect

Records of codecs that old clients cannot decompress (zstd) are sent uncompressed. From version 4 on
records leave as they are, zstd too, as from Kafka 4; Kafka 3 refused zstd below version 10.
"""

from __future__ import annotations

from kqueue.base.errors import OffsetMovedToTieredStorage, StorageUnavailable
from kqueue.base.sliced_task import SlicedWork, run_in_place
from kqueue.broker.fetch.fetch_reader import PartitionFetchResult
from kqueue.broker.replicas.partition import Partition
from kqueue.log.results import ReadResult
from kqueue.records.format_conversion import down_convert
from kqueue.schema import Chunk

BYTES_MAX = 4 * 1024 * 1024
"""Bytes of records in one response before conversion, which takes some 0.2 s/MB."""
VERSION_BATCHES = 4
VERSION_SOFT_LIMITS = 3
VERSION_MAGIC_1 = 2


def down_converted(version: int, result: PartitionFetchResult, limit_bytes: int) -> SlicedWork[Chunk]:
    """Return the records of `result` for a client of this version, below 4.

    Args:
        limit_bytes: bytes that one batch may decompress to.
    Raises: CorruptBatch, UnsupportedCodec, StorageFailed.
    """
    assert result.read is not None
    records = result.read.fetched
    offset, max_bytes = result.fetch.offset, result.fetch.max_bytes
    magic = 1 if version >= VERSION_MAGIC_1 else 0
    while records:
        work = down_convert(records.read(), magic, start_offset=offset, max_bytes=None, limit_bytes=limit_bytes)
        converted = yield from run_in_place(work)
        if converted:
            return converted if version >= VERSION_SOFT_LIMITS else converted[:max_bytes]
        # only control batches, which old formats lack: an empty response would stop the client here
        assert result.partition is not None
        records = _read_on(result.partition, records.next_offset, min(max_bytes, BYTES_MAX))
    return b""


def _read_on(partition: Partition, offset: int, max_bytes: int) -> ReadResult:
    """Read the batches behind those that were left out. Raises: StorageUnavailable: they are read
    from the tier first, for the next try of the client.
    """
    try:
        return partition.read_now(offset, max_bytes)
    except OffsetMovedToTieredStorage:
        read = partition.tiered_read(offset, max_bytes, read_committed=False, min_one_batch=True)
        if read is None:
            partition.start_tiered_read(offset, max_bytes, read_committed=False)
            raise StorageUnavailable(f"{partition!r}: offset {offset} is being read from the tier: try again") from None
        return read.fetched
