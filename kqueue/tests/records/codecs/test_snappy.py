from __future__ import annotations

import tracemalloc

import pytest
import snappy
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import snappy_decode, snappy_encode

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import FRAMES_FREE
from kqueue.records.codecs.snappy import SnappyCodec
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

CODEC = SnappyCodec()
DATA = b"one two three " * 10_000
HEADER = b"\x82SNAPPY\x00" + bytes.fromhex("00000001 00000001")


def block(data: bytes) -> bytes:
    packed = snappy.compress(data)
    return len(packed).to_bytes(4) + packed


def test_the_framing_is_javas() -> None:
    packed = CODEC.compress(DATA)
    assert packed == HEADER + b"".join(block(DATA[pos : pos + 32768]) for pos in range(0, len(DATA), 32768))
    assert packed == snappy_encode(DATA), "kafka-python's"
    assert CODEC.compress(b"") == HEADER


def test_raw_blocks_are_read() -> None:
    assert CODEC.decompress(snappy.compress(DATA), len(DATA)) == DATA
    with pytest.raises(CorruptBatch, match="limit"):
        CODEC.decompress(snappy.compress(DATA), len(DATA) - 1)


def test_streams_after_one_another() -> None:
    assert CODEC.decompress(CODEC.compress(DATA) + CODEC.compress(b"x") + HEADER, len(DATA) + 1) == DATA + b"x"


@settings(deadline=None, max_examples=examples(50))
@given(st.binary(min_size=1, max_size=100), st.integers(1, 2000))
def test_both_ways_with_another_reader(data: bytes, times: int) -> None:
    data *= times
    assert snappy_decode(CODEC.compress(data)) == data
    assert CODEC.decompress(snappy_encode(data), len(data)) == data
    assert CODEC.decompress(snappy_encode(data, xerial_compatible=False), len(data)) == data


@for_each(
    "data, words",
    [
        (b"", "no varint"),
        (HEADER[:-1], "header"),
        (HEADER + b"\0\0\0", "length is cut off"),
        (HEADER + bytes(4), "block of 0 bytes"),
        (HEADER + b"\xff\xff\xff\xff", "block of -1 bytes"),
        (HEADER + block(b"abc")[:-1], "with 4 left"),
        (HEADER + b"\x7f\xff\xff\xff" + bytes(50), "block of 2147483647"),
        (b"\xff\xff\xff\xff\xff\x00", "no varint of 32 bits"),
        (b"\x80\x80", "no varint"),
        (b"\x05\x10abc", "snappy"),
        (snappy.compress(b"abc") + b"\0", "snappy"),
    ],
)
def test_damaged_data_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(CorruptBatch, match=words):
        CODEC.decompress(data, 1 << 31)


def test_a_size_that_the_bytes_can_not_hold_allocates_nothing() -> None:
    lie = b"\xff\xff\xff\xff\x07" + bytes(100)  # 100 bytes that claim 2 GiB
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="can't hold"):
            CODEC.decompress(lie, 1 << 31)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_the_best_that_snappy_can_do_passes_that_check() -> None:
    assert CODEC.decompress(snappy.compress(bytes(1 << 24)), 1 << 24) == bytes(1 << 24)


def test_a_multitude_of_empty_blocks_is_refused() -> None:
    assert CODEC.decompress(HEADER + block(b"") * (FRAMES_FREE - 1), 0) == b""
    for many in (HEADER + block(b"") * 100_000, HEADER * 50_000):
        with pytest.raises(CorruptBatch, match=f"snappy: {FRAMES_FREE + 1} frames or blocks hold 0 bytes"):
            CODEC.decompress(many, 0)
