from __future__ import annotations

import itertools
import tracemalloc

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import FRAMES_FREE
from kqueue.records.codecs.lz4 import Lz4Codec, Lz4V0Codec, xxh32
from kqueue.tests.tables import for_each

CODEC, OLD = Lz4Codec(), Lz4V0Codec()
DATA = b"one two three " * 20_000


def test_the_header_is_javas() -> None:
    """Version 1, blocks on their own, no checksums, no size; blocks of 64 KiB."""
    assert CODEC.compress(b"abc")[:7].hex() == "04224d18604082"
    assert CODEC.compress(b"abc")[-4:] == bytes(4), "the end mark, and no checksum after it"


def test_level_9_is_the_fast_one() -> None:
    text = b"".join(b"%d " % (number * number) for number in range(20_000))
    assert CODEC.compress(text) == CODEC.compress(text, 9)
    assert len(CODEC.compress(text, 8)) < len(CODEC.compress(text))


@for_each(
    "linked, checksum, block_checksum, size, block_size",
    list(itertools.product((False, True), (False, True), (False, True), (False, True), (4, 7))),
)
def test_all_kinds_of_frames_are_read(
    linked: bool, checksum: bool, block_checksum: bool, size: bool, block_size: int
) -> None:
    frame = lz4.frame.compress(
        DATA,
        block_linked=linked,
        content_checksum=checksum,
        block_checksum=block_checksum,
        store_size=size,
        block_size=block_size,
    )
    assert CODEC.decompress(frame, len(DATA)) == DATA
    assert CODEC.decompress(frame + frame, 2 * len(DATA)) == DATA * 2
    for wrong in (frame[:-1], frame[:-4], frame[: len(frame) // 2], frame + b"\0"):
        with pytest.raises(CorruptBatch, match="lz4"):
            CODEC.decompress(wrong, 1 << 20)
    with pytest.raises(CorruptBatch, match="limit"):
        CODEC.decompress(frame, len(DATA) - 1)


def test_frames_that_can_be_skipped() -> None:
    skip = bytes.fromhex("532a4d18") + (5).to_bytes(4, "little") + b"bytes"
    assert CODEC.decompress(skip + CODEC.compress(DATA), len(DATA)) == DATA


def test_a_multitude_of_empty_frames_is_refused() -> None:
    frame = CODEC.compress(b"")
    assert CODEC.decompress(frame * FRAMES_FREE, 0) == b""
    with pytest.raises(CorruptBatch, match=f"lz4: {FRAMES_FREE + 1} frames or blocks hold 0 bytes"):
        CODEC.decompress(frame * 100_000, 0)


def test_false_content_size_allocates_nothing() -> None:
    frame = bytearray(lz4.frame.compress(b"abc", store_size=True))
    frame[6:14] = (1 << 40).to_bytes(8, "little")
    frame[14] = xxh32(frame[4:14]) >> 8 & 0xFF
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="lz4"):
            CODEC.decompress(frame, 1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# --- message format 0


def test_the_old_checksum_covers_the_magic_number_too() -> None:
    new, old = CODEC.compress(DATA), OLD.compress(DATA)
    assert old[6] == xxh32(new[:6]) >> 8 & 0xFF != new[6]
    assert old[:6] + old[7:] == new[:6] + new[7:]
    with pytest.raises(CorruptBatch, match="header"):
        CODEC.decompress(old, len(DATA))


def test_the_old_codec_reads_any_checksum() -> None:
    frame = bytearray(CODEC.compress(DATA))
    for checksum in (frame[6], 0, 255):
        frame[6] = checksum
        assert OLD.decompress(bytes(frame), len(DATA)) == DATA
    sized = bytearray(lz4.frame.compress(DATA, store_size=True))
    sized[14] ^= 0xFF
    assert OLD.decompress(sized, len(DATA)) == DATA


def test_the_old_codec_keeps_the_contract_else() -> None:
    frame = OLD.compress(DATA[:100])
    assert OLD.decompress(OLD.compress(b""), 0) == b""
    for end in range(len(frame)):
        with pytest.raises(CorruptBatch, match="lz4"):
            OLD.decompress(frame[:end], 1000)
    with pytest.raises(CorruptBatch, match="limit"):
        OLD.decompress(frame, 99)


@for_each(
    "data, digest",
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxhash_of_known_texts(data: bytes, digest: int) -> None:
    """The values that xxHash's own documentation and bindings publish."""
    assert xxh32(data) == digest


@given(st.binary(max_size=70))
def test_xxhash_against_the_librarys_content_checksums(data: bytes) -> None:
    frame = lz4.frame.compress(data, content_checksum=True)
    assert xxh32(data) == int.from_bytes(frame[-4:], "little")
