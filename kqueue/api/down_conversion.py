"""Records for Fetch versions below 4, which know nothing of batches of magic 2.

below 4    batches are converted to message sets of magic 1 (2, 3) or 0 (0, 1); what old clients can't decompress (zstd), uncompressed
below 3    sizes are hard limits: what passes the limit is cut in the middle of a message, which clients know how to take

From 4 on records leave as they are, zstd too (as from Kafka 4; Kafka 3 refused that below 10): a
client that can't read it says so itself.
"""

from __future__ import annotations

from kqueue.base.sliced_task import SlicedWork, run_in_place
from kqueue.broker.fetch_reader import PartitionFetchResult
from kqueue.records.format_conversion import down_convert_steps
from kqueue.schema import Chunk

BYTES_MAX = 4 * 1024 * 1024
"""Bytes of records in one answer, before they are converted: that takes some 0.2 s/MB."""
VERSION_BATCHES = 4
VERSION_SOFT_LIMITS = 3
VERSION_MAGIC_1 = 2


def down_converted(version: int, taken: PartitionFetchResult, limit_bytes: int) -> SlicedWork[Chunk]:
    """What was read, as a client of this version (below 4) can take it.

    Args: limit_bytes: what one batch may decompress to. Raises: CorruptBatch, UnsupportedCodec,
    StorageFailed.
    """
    assert taken.read is not None
    fetched = taken.read.fetched
    offset = taken.wanted.offset
    magic = 1 if version >= VERSION_MAGIC_1 else 0
    while fetched:
        steps = down_convert_steps(fetched.read(), magic, start_offset=offset, max_bytes=None, limit_bytes=limit_bytes)
        converted = yield from run_in_place(steps)
        if converted:
            return converted if version >= VERSION_SOFT_LIMITS else converted[: taken.wanted.max_bytes]
        # nothing but control batches, which old formats do not have: an empty answer would leave
        # the client here for ever
        assert taken.partition is not None
        fetched = taken.partition.read_now(fetched.next_offset, min(taken.wanted.max_bytes, BYTES_MAX))
    return b""
