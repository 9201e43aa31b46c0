"""Message sets: the formats of magic 0 and 1, before record batches.

    entry: offset int64 | size int32 (of what follows it) | CRC-32 uint32 | magic int8
         | attributes int8 | timestamp int64, in magic 1 only | key length int32 (-1 null) | key
         | value length int32 (-1 null) | value

The checksum covers the bytes from the magic on. Attributes: bits 0-2 codec, 3 LogAppendTime
(magic 1).

An entry with a codec is a wrapper: its value is a compressed set of the same magic, and its
offset is that of the last inner message. Inner messages of magic 0 have absolute offsets. Those
of magic 1 are relative to the first, so a broker can assign offsets without recompressing. A
wrapper with LogAppendTime gives its time to all inner messages. Source: KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from kqueue.base.errors import CorruptBatch, UnsupportedCodec
from kqueue.base.sliced_task import SlicedWork, run_to_end
from kqueue.records.codecs import CODECS, Codec
from kqueue.records.codecs.contract import Buffer
from kqueue.records.codecs.lz4 import Lz4V0Codec
from kqueue.records.record import Record

ENTRY_OVERHEAD = 12
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
STEP_MESSAGES = 100  # messages per step of long work
LEGACY_CODEC_MAX = 3  # zstd needs magic 2

_START = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC_START = 16
_SIZE_MIN = (14, 22)  # by magic: an entry with null key and value, less the overhead
_LZ4_ID = 3
_LZ4_V0 = Lz4V0Codec()


class LegacyEntry(NamedTuple):
    """One entry of a message set: a message, or a wrapper around a compressed set.

    Attributes:
        position: of the entry in its buffer. size: bytes of the whole entry.
        timestamp: ms since 1970, -1 in magic 0.
    """

    offset: int
    position: int
    size: int
    magic: int
    crc: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec_id(self) -> int:
        """Id of the compression codec, 0: the entry is a message."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker set the time."""
        return self.magic > 0 and self.attributes & LOG_APPEND_TIME != 0

    @property
    def last_offset(self) -> int:
        """Offset of the last message."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """Offset after the entry."""
        return self.offset + 1

    @property
    def max_timestamp(self) -> int:
        """Greatest time in the entry; a wrapper has the time of its latest message."""
        return self.timestamp


def read_entry(buf: Buffer, pos: int, end: int) -> LegacyEntry | None:
    """Return the entry at `pos`; None: it is incomplete. Raises: CorruptBatch: wrong magic or
    length.
    """
    if end - pos <= _CRC_START + 1:
        return None
    offset, size, crc, magic, attributes = _START.unpack_from(buf, pos)
    if magic not in (0, 1):
        raise CorruptBatch(f"expected a message of magic 0 or 1, found {magic} at position {pos}")
    if size < _SIZE_MIN[magic]:
        raise CorruptBatch(
            f"a message of magic {magic} has {_SIZE_MIN[magic]} bytes at least, found {size} at position {pos}"
        )
    entry_end = pos + ENTRY_OVERHEAD + size
    if entry_end > end:
        return None
    at = pos + _START.size
    timestamp = -1
    if magic == 1:
        (timestamp,) = _TIMESTAMP.unpack_from(buf, at)
        at += _TIMESTAMP.size
    key, at = _read_bytes(buf, at, entry_end - _LENGTH.size)
    value, at = _read_bytes(buf, at, entry_end)
    if at != entry_end:
        raise CorruptBatch(f"the message at position {pos} ends at {at}, its size says {entry_end}")
    return LegacyEntry(offset, pos, ENTRY_OVERHEAD + size, magic, crc, attributes, timestamp, key, value)


def _read_bytes(buf: Buffer, pos: int, end: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(buf, pos)
    start = pos + _LENGTH.size
    if length == -1:
        return None, start
    if not 0 <= length <= end - start:
        raise CorruptBatch(f"a length of {length} at position {pos}, where {end - start} bytes are left")
    return bytes(buf[start : start + length]), start + length


def iter_entries(buf: Buffer, pos: int = 0, end: int | None = None) -> Iterator[LegacyEntry]:
    """Yield each whole entry in `buf[pos:end]`, wrappers undecoded; stop at an incomplete one.

    Checksums are not compared.
    Raises: CorruptBatch: as `read_entry`.
    """
    end = len(buf) if end is None else end
    while (entry := read_entry(buf, pos, end)) is not None:
        yield entry
        pos += entry.size


def check_entry(buf: Buffer, entry: LegacyEntry) -> None:
    """Compare the entry's checksum with its bytes. Raises: CorruptBatch: they differ."""
    crc = zlib.crc32(memoryview(buf)[entry.position + _CRC_START : entry.position + entry.size])
    if crc != entry.crc:
        raise CorruptBatch(
            f"the message at position {entry.position} has the checksum {entry.crc:#010x}, its bytes give {crc:#010x}"
        )


def entry_records(entry: LegacyEntry, limit_bytes: int) -> list[Record]:
    """Return the records of one entry, with absolute offsets: one, or all of a wrapper.

    The checksums of inner messages are compared.
    Raises:
        CorruptBatch: a wrapper is empty, nested, damaged, or holds another magic.
        DecompressedTooLarge: above `limit_bytes`.
        UnsupportedCodec: the message format does not have the codec.
    """
    return run_to_end(entry_records_steps(entry, limit_bytes))


def entry_records_steps(entry: LegacyEntry, limit_bytes: int) -> SlicedWork[list[Record]]:
    """`entry_records` in steps."""
    if not entry.codec_id:
        return [Record(entry.offset, entry.timestamp, entry.key, entry.value)]
    messages = yield from inner_entries_steps(entry, limit_bytes)
    base = entry.offset - messages[-1].offset if entry.magic == 1 else 0
    append_time = entry.timestamp if entry.is_log_append_time else None
    return [
        Record(base + inner.offset, inner.timestamp if append_time is None else append_time, inner.key, inner.value)
        for inner in messages
    ]


def inner_entries(wrapper: LegacyEntry, limit_bytes: int) -> list[LegacyEntry]:
    """Return the messages in a wrapper, with their stored offsets. Raises: as `entry_records`."""
    return run_to_end(inner_entries_steps(wrapper, limit_bytes))


def inner_entries_steps(wrapper: LegacyEntry, limit_bytes: int) -> SlicedWork[list[LegacyEntry]]:
    """`inner_entries` in steps."""
    if wrapper.value is None:
        raise CorruptBatch(f"the compressed message at position {wrapper.position} has no value")
    content: bytes = yield partial(legacy_codec(wrapper.codec_id, wrapper.magic).decompress, wrapper.value, limit_bytes)
    messages: list[LegacyEntry] = []
    entries = iter_entries(content)
    while part := list(islice(entries, STEP_MESSAGES)):
        messages += part
        yield None
    if not messages or messages[-1].position + messages[-1].size != len(content):
        raise CorruptBatch(
            f"the compressed message at position {wrapper.position} holds no whole messages, or bytes after them"
        )
    for number, inner in enumerate(messages):
        if not number % STEP_MESSAGES:
            yield None
        check_entry(content, inner)
        if inner.magic != wrapper.magic or inner.codec_id:
            raise CorruptBatch(
                f"a wrapper of magic {wrapper.magic} at position {wrapper.position} holds magic {inner.magic}, "
                f"codec {inner.codec_id}"
            )
    return messages


def legacy_codec(codec_id: int, magic: int) -> Codec:
    """Return the codec with this id in the format of this magic. Raises: UnsupportedCodec."""
    if codec_id == _LZ4_ID and magic == 0:
        return _LZ4_V0
    codec = CODECS.by_id(codec_id) if codec_id <= LEGACY_CODEC_MAX else None
    if codec is None:
        raise UnsupportedCodec(f"messages of magic {magic} have no codec with the id {codec_id}")
    return codec


def encode_entry(
    magic: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None, attributes: int = 0
) -> bytes:
    """Return the bytes of one entry. Magic 0 has no field for `timestamp`."""
    time = _TIMESTAMP.pack(timestamp) if magic else b""
    covered = b"".join((bytes((magic, attributes)), time, _encode_bytes(key), _encode_bytes(value)))
    return _START.pack(offset, len(covered) + 4, zlib.crc32(covered), magic, attributes) + covered[2:]


def _encode_bytes(value: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if value is None else _LENGTH.pack(len(value)) + value


def encode_set(records: Iterable[Record], magic: int, codec_id: int = 0, *, log_append_time: bool = False) -> bytes:
    """Return a message set with these records, in one wrapper if `codec_id` is not 0.

    Headers and sequences are dropped, because the format has no fields for them.
    Raises: UnsupportedCodec: as `legacy_codec`.
    """
    return run_to_end(encode_set_steps(records, magic, codec_id, log_append_time=log_append_time))


def encode_set_steps(
    records: Iterable[Record], magic: int, codec_id: int, *, log_append_time: bool
) -> SlicedWork[bytes]:
    """`encode_set` in steps. Each step consumes a part of `records`."""
    kind = LOG_APPEND_TIME if magic and log_append_time else 0
    iterator, parts, base = iter(records), list[bytes](), None
    last_offset = latest = -1
    while chunk := list(islice(iterator, STEP_MESSAGES)):
        if base is None:
            base = chunk[0].offset if magic and codec_id else 0
            latest = chunk[0].timestamp
        parts += [
            encode_entry(magic, record.offset - base, record.timestamp, record.key, record.value, kind)
            for record in chunk
        ]
        last_offset, latest = chunk[-1].offset, max(latest, max(record.timestamp for record in chunk))
        yield None
    if not parts or not codec_id:
        return b"".join(parts)
    packed = yield partial(legacy_codec(codec_id, magic).compress, b"".join(parts))
    return encode_entry(magic, last_offset, latest, None, packed, kind | codec_id)
