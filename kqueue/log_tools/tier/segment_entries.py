"""The entry at the end of a segment object, from which a lost manifest is made again."""

from __future__ import annotations

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.segment_object import TRAILER, decode_entry, decode_trailer
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.stores.contract import TierStore


def read_entry(store: TierStore, key: str, size: int) -> TieredSegment:
    """Return the entry in an object of `size` bytes.

    Raises: TierCorrupt: it is no whole segment object. ObjectNotFound; TierError.
    """
    name = f"{store.location}/{key}"
    if size <= TRAILER.size:
        raise TierCorrupt(f"{name} is no segment object: it has {size} bytes")
    crc, entry_size = decode_trailer(store.get_range(key, size - TRAILER.size, TRAILER.size), name)
    start = size - TRAILER.size - entry_size
    if entry_size == 0 or start < 0:
        raise TierCorrupt(f"{name}: expected an entry within {size} bytes, found one of {entry_size} bytes")
    entry = decode_entry(store.get_range(key, start, entry_size), crc, name)
    if entry.size + sum(entry.indexes) != start:
        raise TierCorrupt(
            f"{name}: expected {entry.size + sum(entry.indexes)} bytes before its entry, as that says, found {start}"
        )
    return entry
