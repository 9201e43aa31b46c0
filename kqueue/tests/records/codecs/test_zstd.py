from __future__ import annotations

import random
import tracemalloc

import pytest
import zstandard

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.contract import FRAMES_FREE
from kqueue.records.codecs.zstd import ZstdCodec, _tame_window
from kqueue.tests.tables import for_each

CODEC = ZstdCodec()
DATA = b"one two three " * 20_000
NOISE = random.Random(1).randbytes(300_000)


def streamed(data: bytes, **settings: int | bool) -> bytes:
    """A frame without its size, as Java writes it."""
    parameters = zstandard.ZstdCompressionParameters(write_content_size=False, **settings)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(data) + stream.flush()


def skippable(data: bytes) -> bytes:
    return bytes.fromhex("522a4d18") + len(data).to_bytes(4, "little") + data


@for_each("data", [b"", b"x", DATA, NOISE, bytes(1_000_000), DATA + NOISE + bytes(300_000)])
@for_each("checksum", [False, True])
@for_each("sized", [False, True])
def test_all_kinds_of_frames_are_read(data: bytes, checksum: bool, sized: bool) -> None:
    compressor = zstandard.ZstdCompressor(write_checksum=checksum)
    frame = compressor.compress(data) if sized else streamed(data, write_checksum=checksum)
    assert (zstandard.get_frame_parameters(frame).content_size == len(data)) == sized or not data
    assert CODEC.decompress(frame, len(data)) == data
    assert CODEC.decompress(skippable(b"ab") + frame + skippable(b"") + frame, 2 * len(data)) == data * 2
    for wrong in (
        frame[:-1],
        frame[: len(frame) // 2],
        frame + b"\0",
        frame + frame[:3],
        frame + skippable(b"ab")[:-1],
    ):
        with pytest.raises(CorruptBatch, match="zstd"):
            CODEC.decompress(wrong, 1 << 22)
    for limit in {len(data) - 1, len(data) // 3} - {-1, len(data)}:
        with pytest.raises(CorruptBatch, match="zstd"):
            CODEC.decompress(frame, limit)


def test_a_limit_holds_for_all_frames_together() -> None:
    for frame in (CODEC.compress(DATA), streamed(DATA)):
        assert CODEC.decompress(frame * 3, 3 * len(DATA)) == DATA * 3
        with pytest.raises(CorruptBatch, match="zstd"):
            CODEC.decompress(frame * 3, 3 * len(DATA) - 1)


def test_every_level_is_read() -> None:
    for level in (-131072, -5, 1, 3, 19, 22):
        assert CODEC.decompress(CODEC.compress(DATA[:5000], level), 5000) == DATA[:5000]


def test_frames_of_many_blocks() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    parts = [
        stream.compress(DATA[pos : pos + 999]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for pos in range(0, len(DATA), 999)
    ]
    frame = b"".join(parts) + stream.flush()
    assert CODEC.decompress(frame, len(DATA)) == DATA


def test_only_skippable_frames_hold_nothing() -> None:
    assert CODEC.decompress(skippable(b"abc"), 0) == b""


@for_each(
    "data, words",
    [
        (b"", "cut off"),
        (b"\x28\xb5\x2f", "cut off"),
        (b"no zstd at all", "magic number"),
        (bytes.fromhex("28b52ffd2003") + bytes.fromhex("070000"), "type 3"),
        (bytes.fromhex("28b52ffd2003") + (200_000 << 3 | 1).to_bytes(3, "little"), "200000 bytes"),
        (bytes.fromhex("28b52ffd2005") + (3 << 3 | 1).to_bytes(3, "little") + b"abc", "claims 5"),
        (bytes.fromhex("28b52ffd2002") + (3 << 3 | 1).to_bytes(3, "little") + b"abc", "zstd"),
        (bytes.fromhex("522a4d18ffffffff"), "cut off"),
    ],
)
def test_damaged_data_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(CorruptBatch, match=words):
        CODEC.decompress(data, 1 << 20)


def test_a_frame_by_hand() -> None:
    raw = bytes.fromhex("28b52ffd2003") + (3 << 3 | 1).to_bytes(3, "little") + b"abc"
    assert CODEC.decompress(raw, 3) == b"abc"
    repeated = bytes.fromhex("28b52ffd2003") + (3 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"
    assert CODEC.decompress(repeated, 3) == b"xxx"


def test_false_content_size_allocates_nothing() -> None:
    frame = bytes.fromhex("28b52ffde0") + (1 << 40).to_bytes(8, "little") + (3 << 3 | 1).to_bytes(3, "little") + b"abc"
    tracemalloc.start()
    try:
        for limit in (1 << 20, 1 << 41):
            with pytest.raises(CorruptBatch, match="zstd"):
                CODEC.decompress(frame, limit)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@for_each("window_log", [24, 27, 31])
def test_a_window_larger_than_the_content_is_not_granted(window_log: int) -> None:
    frame = bytearray(streamed(DATA, window_log=24))
    frame[5] = window_log - 10 << 3
    assert CODEC.decompress(bytes(frame), len(DATA)) == DATA
    tamed = zstandard.get_frame_parameters(bytes(_tame_window(frame, len(DATA))))
    assert tamed.window_size == 8 * 1024 * 1024


def test_a_modest_window_is_left_alone() -> None:
    for frame in (streamed(DATA), CODEC.compress(DATA)):
        assert _tame_window(frame, len(DATA)) is frame


def test_far_matches_in_a_large_frame_survive() -> None:
    noise = random.Random(2).randbytes(9 << 20)
    frame = streamed(noise + noise, window_log=25)
    assert len(frame) < len(noise) * 3 // 2, "the second half is a match 9 MiB back, or this test shows nothing"
    assert CODEC.decompress(frame, len(noise) * 2) == noise * 2


@for_each("frame", [zstandard.ZstdCompressor().compress(b""), skippable(b"")])
def test_a_multitude_of_empty_frames_is_refused(frame: bytes) -> None:
    assert CODEC.decompress(frame * FRAMES_FREE, 0) == b""
    with pytest.raises(CorruptBatch, match=f"zstd: {FRAMES_FREE + 1} frames or blocks hold 0 bytes"):
        CODEC.decompress(frame * 100_000, 0)


def test_a_multitude_of_empty_blocks_is_refused() -> None:
    empty, last = b"\0\0\0", b"\1\0\0"
    head = b"\x28\xb5\x2f\xfd\x00\x00"
    assert CODEC.decompress(head + empty * (FRAMES_FREE - 1) + last, 0) == b""
    with pytest.raises(CorruptBatch, match="frames or blocks hold 0 bytes"):
        CODEC.decompress(head + empty * 300_000 + last, 0)
