"""Functions that generated code calls: long varints, unknown tagged fields, errors."""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from kqueue.base.errors import MalformedMessage, TooManyItems, UnencodableMessage, UnsupportedVersion
from kqueue.base.text import java_text

STRING_SIZE_MAX = 32767  # also where the length is a varint; source: Kafka's generated readers and writers
TEXT = tuple(struct.Struct(f"{size}s").unpack_from for size in range(128))
"""By size: the `unpack_from` that reads that many bytes."""
COMPACT_TEXT = (TEXT[0], *TEXT)
"""The same by compact length, size + 1."""
OMISSION = " [...] "
"""Replaces the middle of a text that is too long."""
BYTE = tuple(bytes((value,)) for value in range(128))


def replaced_text(data: bytes) -> str:
    """Return a string as Kafka's readers do, with replacement characters for invalid bytes.

    Raises:
        MalformedMessage: no response can repeat it, because a replacement takes three bytes.
    """
    text = java_text(data)
    size = len(text.encode())
    if size > STRING_SIZE_MAX:
        raise MalformedMessage(
            f"expected a string of at most {STRING_SIZE_MAX} bytes, found {size} "
            f"after bytes that are not UTF-8 were replaced"
        )
    return text


def uvarint_rest(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte (>= 128) is before `pos`.

    Returns:
        Its value, <= 2^32 - 1, and the next position.

    Raises:
        MalformedMessage: more than 32 bits.
        IndexError: the buffer ends within it.
    """
    second = buf[pos]
    if second < 128:
        return first & 127 | second << 7, pos + 1
    value = first & 127 | (second & 127) << 7
    for shift in (14, 21, 28):
        pos += 1
        byte = buf[pos]
        value |= (byte & 127) << shift
        if byte < 128:
            if shift == 28 and byte > 15:
                break
            return value, pos + 1
    raise MalformedMessage(f"expected a varint of at most 32 bits, found a longer one before byte {pos + 1}")


def uvarint_at(buf: memoryview, pos: int) -> tuple[int, int]:
    """Return an unsigned varint and the next position.

    Raises:
        as `uvarint_rest`.
    """
    first = buf[pos]
    return (first, pos + 1) if first < 128 else uvarint_rest(buf, pos + 1, first)


def skip_tags(buf: memoryview, pos: int, first: int, end: int) -> int:
    """Skip a section of tagged fields; `first` is the first byte of their count.

    Returns:
        The next position.
    """
    count = first
    if first > 127:
        count, pos = uvarint_rest(buf, pos, first)
    for _ in range(count):
        tag, pos = uvarint_at(buf, pos)
        size, pos = uvarint_at(buf, pos)
        pos += size
        if pos > end:
            fail_size("tagged field", f"tag {tag}", size, pos - size, end)
    return pos


def tag_count(buf: memoryview, pos: int, first: int) -> int:
    """Return the number of tagged fields from its first byte and the rest at `pos`.

    Raises:
        as `uvarint_rest`.
    """
    return first if first < 128 else uvarint_rest(buf, pos, first)[0]


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint, 0 … 2^32 - 1. Raises: UnencodableMessage."""
    if value < 128:
        return BYTE[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    if value >= 1 << 32:
        raise UnencodableMessage(f"expected a length or count below 2^32, found {value}")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def uvarint_text(value: int) -> bytes:
    """Encode the compact length (size + 1) of a string. Raises: UnencodableMessage: too long."""
    if value > STRING_SIZE_MAX + 1:
        raise UnencodableMessage(f"expected a string of at most {STRING_SIZE_MAX} bytes, found {value - 1}")
    return uvarint(value)


def shortened_text(text: str) -> bytes:
    """Encode a text for people. One that is too long for a string loses its middle.

    Surrogates, which names of files may contain, are written as escapes.
    """
    data = text.encode(errors="backslashreplace")
    if len(data) <= STRING_SIZE_MAX:
        return data
    kept = (STRING_SIZE_MAX - len(OMISSION)) // 2
    parts = (data[:kept].decode(errors="ignore"), OMISSION, data[-kept:].decode(errors="ignore"))
    return "".join(parts).encode()


# --- errors: what was expected, what was found, where


def fail_size(struct_name: str, field: str, size: int, pos: int, end: int) -> NoReturn:
    """Raise for a length that is negative, a forbidden null, above its limit, or beyond the end."""
    left = max(0, end - pos)
    expected = f"expected a length from 0 to {left} (bytes left)"
    if 0 <= size <= left:
        expected = f"expected a string of at most {STRING_SIZE_MAX} bytes"
    shown = "null" if size == -1 else f"{size}"
    raise MalformedMessage(f"{struct_name}.{field}: {expected}, found {shown}, at byte {pos} of {end}")


def fail_count(struct_name: str, field: str, count: int, element_size: int, pos: int, end: int) -> NoReturn:
    """Raise for a count that the remaining bytes cannot hold, or for a forbidden null."""
    left = max(0, end - pos)
    expected = f"expected a count from 0 to {left // element_size} (what fits into the {left} bytes left)"
    shown = "null" if count == -1 else f"{count}"
    raise MalformedMessage(f"{struct_name}.{field}: {expected}, found {shown}, at byte {pos} of {end}")


def fail_room(struct_name: str, field: str, count: int, room: int, pos: int, end: int) -> NoReturn:
    """Raise for too many items: `room`, what remains after these `count`, is below 0."""
    raise TooManyItems(
        f"{struct_name}.{field}: {count} items at byte {pos} of {end} are {-room} more than the message may hold", -room
    )


def fail_marker(struct_name: str, field: str, marker: int, pos: int, end: int, null: int = -1) -> NoReturn:
    """Raise for a presence byte of a struct that is neither 1 nor `null`, or a forbidden null."""
    raise MalformedMessage(
        f"{struct_name}.{field}: expected 1 (present) or {null} (null), found {marker}, at byte {pos} of {end}"
    )


def fail_tag_size(struct_name: str, tag: int, pos: int, stop: int) -> NoReturn:
    """Raise for a tagged field whose value does not end where its size says."""
    raise MalformedMessage(
        f"{struct_name}: expected the field of tag {tag} to end at byte {stop}, it ended at byte {pos}"
    )


def malformed(message_name: str, version: int, pos: int, end: int) -> MalformedMessage:
    """Return the exception for a message that ends too early, in a reader near byte `pos`."""
    return MalformedMessage(
        f"{message_name} v{version}: expected more bytes than the {max(0, end - pos)} found at byte {pos} of {end}"
    )


def refuse_version(struct_name: str, field: str, versions: object, version: int, value: object) -> NoReturn:
    """Raise for a value that this version has no field for."""
    raise UnsupportedVersion(f"{struct_name}.{field} is {value!r}, which only versions {versions} carry, not {version}")


def refuse_null(struct_name: str, field: str, versions: object, version: int) -> NoReturn:
    """Raise for None in a field that has no null in this version."""
    raise UnsupportedVersion(f"{struct_name}.{field} is None, which only versions {versions} can say, not {version}")


def check_uuid(struct_name: str, field: str, value: Any) -> None:
    """Raise UnencodableMessage if `value` does not have 16 bytes."""
    if len(value) != 16:
        raise UnencodableMessage(f"{struct_name}.{field}: expected a uuid of 16 bytes, found {len(value)}")


def unencodable(message_name: str, version: int, error: Exception) -> UnencodableMessage:
    """Return the exception for a value that its field can't encode."""
    return UnencodableMessage(
        f"{message_name} v{version}: a value that its field can't carry: {type(error).__name__}: {error}"
    )


READ_ERRORS = (IndexError, struct.error)
WRITE_ERRORS = (struct.error, TypeError, AttributeError, UnicodeEncodeError, OverflowError)
