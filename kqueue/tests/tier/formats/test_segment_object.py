from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kqueue.tests.tier.segment_entries import entries, entry
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.segment_object import (
    ENTRY_BYTES_MAX,
    MAGIC,
    TRAILER,
    decode_entry,
    decode_trailer,
    encode_footer,
    index_range,
    parts_of,
    split_indexes,
)
from kqueue.tier.formats.segments import EPOCHS_MAX, TieredSegment


def entry_in(footer: bytes) -> TieredSegment:
    """Read a footer as a tool does: the trailer first, then the entry before it."""
    crc, size = decode_trailer(footer[-TRAILER.size :], "the object")
    return decode_entry(footer[-TRAILER.size - size : -TRAILER.size], crc, "the object")


@given(entries())
def test_entry_in_the_footer_is_that_of_the_manifest(segment: TieredSegment) -> None:
    assert entry_in(encode_footer(segment)) == segment


def test_longest_entry_is_within_the_bound() -> None:
    epochs = tuple((2**31 - EPOCHS_MAX + number, 2**62 + number) for number in range(EPOCHS_MAX))
    segment = entry(2**62, 2**63 - 1, epochs=epochs, size=0, max_timestamp=2**63 - 1)
    assert len(encode_footer(segment)) < ENTRY_BYTES_MAX
    assert entry_in(encode_footer(segment)) == segment


@given(st.lists(st.binary(max_size=20), min_size=5, max_size=5))
def test_indexes_are_split_at_their_sizes(indexes: list[bytes]) -> None:
    segment = entry(0, 5, indexes=parts_of(indexes))
    assert index_range(segment) == (500, sum(map(len, indexes)))
    assert list(split_indexes(segment.indexes, b"".join(indexes))) == indexes


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 15, b"x" * 16, b"x" * 17, b"\0" * 9 + MAGIC, struct.pack(">II8s", 0, ENTRY_BYTES_MAX + 1, MAGIC)],
)
def test_other_object_has_no_trailer(data: bytes) -> None:
    with pytest.raises(TierCorrupt, match="the object"):
        decode_trailer(data, "the object")


def test_any_changed_byte_of_a_footer_is_noticed() -> None:
    data = bytes(8192) + encode_footer(entry(0, 5))
    for position in range(8192, len(data)):
        wrong = bytearray(data)
        wrong[position] ^= 0x10
        with pytest.raises(TierCorrupt):
            entry_in(bytes(wrong))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b"9" * 100_000])
def test_entry_that_is_none_is_refused_though_its_checksum_is_right(data: bytes) -> None:
    with pytest.raises(TierCorrupt):
        decode_entry(data, crc32c(data), "the object")
