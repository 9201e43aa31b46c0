"""A segment object: the files of one sealed segment, as they are, one after the other.

    batches (.log) | offset index | time index | transaction index | producer snapshot | leader
    epochs | entry: the segment's entry of the manifest, JSON | CRC-32C of the entry, uint32 | bytes
    of the entry, uint32 | "KQSEGMT1"                     (big-endian)

Positions in the batches are positions in the object, so the offset index needs no conversion. What
follows the batches is one range, read at once when a segment is first used. The entry at the end
lets `kqueue tier recover` rebuild a manifest that is lost; no reader of records needs it.

The producer snapshot and the leader epochs are those at the end of the segment: a replica that
begins there needs nothing else. Epochs go back to the log start.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence

from crc32c import crc32c

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.segments import IndexSizes, TieredSegment, read_segment

MAGIC = b"KQSEGMT1"
TRAILER = struct.Struct(">II8s")
ENTRY_BYTES_MAX = 1 << 20


def index_range(segment: TieredSegment) -> tuple[int, int]:
    """Return the position and the bytes of all that lies between the batches and the entry."""
    return segment.size, sum(segment.indexes)


def split_indexes(indexes: IndexSizes, data: bytes) -> Iterator[bytes]:
    """Yield the parts of the range that `index_range` names."""
    position = 0
    for size in indexes:
        yield data[position : position + size]
        position += size


def encode_footer(segment: TieredSegment) -> bytes:
    """Return the entry and what follows it."""
    entry = json.dumps(segment.to_json(), separators=(",", ":")).encode()
    return entry + TRAILER.pack(crc32c(entry), len(entry), MAGIC)


def decode_trailer(data: bytes, name: str) -> tuple[int, int]:
    """Return the checksum and the bytes of the entry before the last `TRAILER.size` bytes.

    Raises: TierCorrupt: this is no segment object.
    """
    if len(data) != TRAILER.size or data[-len(MAGIC) :] != MAGIC:
        raise TierCorrupt(f"{name} is no segment object: expected {MAGIC!r} at its end, found {data[-8:]!r}")
    crc, size, _ = TRAILER.unpack(data)
    if size > ENTRY_BYTES_MAX:
        raise TierCorrupt(f"{name}: expected an entry of at most {ENTRY_BYTES_MAX} bytes, found one of {size}")
    return crc, size


def decode_entry(data: bytes, crc: int, name: str) -> TieredSegment:
    """Return the entry in a segment object. Raises: TierCorrupt."""
    if crc32c(data) != crc:
        raise TierCorrupt(f"{name}: the checksum of its entry is wrong")
    try:
        return read_segment(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise TierCorrupt(f"{name}: its entry is no JSON: {error}") from None


def parts_of(indexes: Sequence[bytes]) -> IndexSizes:
    """Return the sizes of the parts, in the order of `IndexSizes`."""
    return IndexSizes(*map(len, indexes))
