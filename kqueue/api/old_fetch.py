"""Records for old Fetch versions, which can't be told what newer ones can.

below 10   zstd is unknown: batches before the first of zstd are given, then UnsupportedCodec
below 4    batches of magic 2 are unknown: converted to message sets of magic 1 (2, 3) or 0 (0, 1)
below 3    sizes are hard limits: what passes the limit is cut in the middle of a message, which clients know how to take
"""

from __future__ import annotations

from kqueue.base.errors import UnsupportedCodec
from kqueue.broker.fetching import Taken
from kqueue.records.codecs import CODECS
from kqueue.records.legacy import down_convert, iter_units
from kqueue.schema import Chunk

VERSION_ZSTD = 10
VERSION_BATCHES = 4
VERSION_SOFT_LIMITS = 3
VERSION_MAGIC_1 = 2


def records_for(version: int, taken: Taken) -> Chunk:
    """What was read, as a client of this version (below 10) can take it.

    Raises: UnsupportedCodec: the next batch is one that the client can't read. CorruptBatch, StorageFailed.
    """
    assert taken.read is not None
    data = taken.read.fetched.read()
    offset = taken.wanted.offset
    while data:
        usable, next_offset = _readable(data)
        if version >= VERSION_BATCHES:
            return usable
        converted = down_convert(usable, 1 if version >= VERSION_MAGIC_1 else 0, start_offset=offset)
        if converted:
            return converted if version >= VERSION_SOFT_LIMITS else converted[: taken.wanted.max_bytes]
        # nothing but control batches, which old formats do not have: an empty answer would leave the client here for ever
        data = _read_on(taken, next_offset)
    return b""


def _readable(data: bytes) -> tuple[memoryview, int]:
    """The batches before the first of zstd, and the offset after them."""
    end, next_offset = 0, -1
    zstd = CODECS.get("zstd").id
    for position, unit in iter_units(data):
        if unit.codec_id == zstd:
            if not end:
                raise UnsupportedCodec(
                    f"the batch up to offset {unit.last_offset} is compressed with zstd, which needs Fetch {VERSION_ZSTD}"
                )
            break
        end, next_offset = position + unit.size, unit.next_offset
    return memoryview(data)[:end], next_offset


def _read_on(taken: Taken, offset: int) -> bytes:
    assert taken.partition is not None
    return taken.partition.read(offset, taken.wanted.max_bytes).fetched.read()
