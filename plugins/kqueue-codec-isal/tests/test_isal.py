from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import gzip_decode, gzip_encode
from kqueue_codec_isal import CODEC

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs import CODECS
from kqueue.records.codecs.gzip import GzipCodec
from kqueue.testing.codec_checks import check_codec

LEVELS = st.sampled_from([None, 0, 1, 2, 3])
BUFFERS = st.binary(max_size=3000) | st.builds(
    lambda piece, times: piece * times, st.binary(min_size=1, max_size=40), st.integers(0, 2000)
)


def test_isal_codec_keeps_the_contract() -> None:
    check_codec(CODEC)


def test_isal_codec_is_found_by_name_and_replaces_gzip_only_if_preferred() -> None:
    data = b"a record and another " * 50
    assert CODECS.get("isal").compress(data) == CODEC.compress(data) != CODECS.get("gzip").compress(data)
    with CODECS.preferred("isal"):
        assert CODECS.get("gzip").compress(data) == CODEC.compress(data)
    assert type(CODECS.by_id(1)) is GzipCodec


@given(data=BUFFERS, level=LEVELS)
@settings(deadline=None)
def test_compressed_data_is_read_by_other_decoders(data: bytes, level: int | None) -> None:
    packed = CODEC.compress(data, level)
    assert GzipCodec().decompress(packed, len(data)) == data
    assert gzip.decompress(packed) == data
    assert zlib.decompress(packed, 31) == data


@given(data=BUFFERS, level=st.integers(1, 9))
@settings(deadline=None)
def test_data_of_other_encoders_is_read(data: bytes, level: int) -> None:
    assert CODEC.decompress(GzipCodec().compress(data, level), len(data)) == data
    assert CODEC.decompress(gzip.compress(data, level), len(data)) == data


@given(data=BUFFERS)
@settings(deadline=None)
def test_kafka_python_reads_it_and_is_read(data: bytes) -> None:
    assert gzip_decode(CODEC.compress(data)) == data
    assert CODEC.decompress(gzip_encode(data), len(data)) == data


@given(parts=st.lists(st.binary(max_size=200), min_size=1, max_size=20), pick=st.randoms(use_true_random=False))
@settings(deadline=None)
def test_members_after_one_another_are_one(parts: list[bytes], pick: random.Random) -> None:
    packed = b"".join(pick.choice((CODEC, GzipCodec())).compress(part) for part in parts)
    whole = b"".join(parts)
    assert CODEC.decompress(packed, len(whole)) == whole
    if whole:
        with pytest.raises(CorruptBatch, match="limit"):
            CODEC.decompress(packed, len(whole) - 1)


@pytest.mark.parametrize("left_over", [b"x", b"\0" * 8, b"\x1f\x8b"])
def test_bytes_left_over_are_refused(left_over: bytes) -> None:
    with pytest.raises(CorruptBatch, match="isal"):
        CODEC.decompress(CODEC.compress(b"records") + left_over, 1000)


def test_no_data_is_no_gzip() -> None:
    with pytest.raises(CorruptBatch, match="cut off"):
        CODEC.decompress(b"", 10)


def test_a_bomb_costs_no_more_than_the_limit() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = bomb.compress(bytes(64 << 20)) + bomb.flush()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match="limit"):
            CODEC.decompress(packed, 100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_flipped_bit_in_what_is_compressed_is_noticed() -> None:
    data = random.Random(3).randbytes(400)
    packed = CODEC.compress(data)
    for bit in range(len(packed) * 8):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            decompressed = CODEC.decompress(bytes(changed), 1000)
        except CorruptBatch:
            continue
        assert decompressed == data, (
            "only what carries no data, such as the time in the header, may be turned unnoticed"
        )
