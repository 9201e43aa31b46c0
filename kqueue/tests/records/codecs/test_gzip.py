from __future__ import annotations

import gzip
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs import gzip as codec_module
from kqueue.records.codecs.contract import FRAME_BYTES, FRAMES_FREE
from kqueue.records.codecs.gzip import GzipCodec
from kqueue.tests.tables import for_each

CODEC = GzipCodec()
DATA = b"one two three " * 5000


def test_the_standard_librarys_members() -> None:
    assert CODEC.decompress(gzip.compress(DATA), len(DATA)) == DATA
    assert gzip.decompress(CODEC.compress(DATA)) == DATA


def test_level_minus_one_is_the_default() -> None:
    assert CODEC.compress(DATA) == CODEC.compress(DATA, -1) == CODEC.compress(DATA, 6) != CODEC.compress(DATA, 1)


@for_each("count", [2, 3, 10])
def test_members_after_one_another(count: int) -> None:
    members = [gzip.compress(DATA[:size] * 3) for size in range(0, 7 * count, 7)]
    whole = b"".join(gzip.decompress(member) for member in members)
    assert CODEC.decompress(b"".join(members), len(whole)) == whole
    with pytest.raises(CorruptBatch, match="limit"):
        CODEC.decompress(b"".join(members), len(whole) - 1)


@for_each("size", [900, 3000, 10_000, 70_000])
def test_large_members_after_one_another(size: int) -> None:
    members = gzip.compress(DATA[:size], 0) * 3
    assert CODEC.decompress(members, 3 * size) == DATA[:size] * 3


def test_a_multitude_of_empty_members_is_refused() -> None:
    member = gzip.compress(b"", 1)
    assert CODEC.decompress(member * FRAMES_FREE, 0) == b""
    with pytest.raises(CorruptBatch, match=f"gzip: {FRAMES_FREE + 1} frames or blocks hold 0 bytes"):
        CODEC.decompress(member * 50_000, 0)


def test_a_multitude_of_members_costs_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib copies what follows a member, so all that it is given counts."""
    given = 0

    class CountingStream:
        def __init__(self, window: int) -> None:
            self._stream = zlib.decompressobj(window)

        def decompress(self, data: memoryview, limit: int) -> bytes:
            nonlocal given
            given += len(data)
            return self._stream.decompress(data, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._stream, name)

    monkeypatch.setattr(codec_module, "zlib", SimpleNamespace(decompressobj=CountingStream, error=zlib.error))
    member, counts = gzip.compress(bytes(FRAME_BYTES), 1), []
    for count in (1000, 2000):
        given = 0
        assert CODEC.decompress(member * count, count * FRAME_BYTES) == bytes(count * FRAME_BYTES)
        counts.append(given)
    assert counts[1] < 2.1 * counts[0]


@for_each("tail", [b"\0", b"\x1f", b"\x1f\x8b", b"garbage", gzip.compress(b"x", mtime=0)[:-1]])
def test_bytes_left_over(tail: bytes) -> None:
    with pytest.raises(CorruptBatch, match="gzip"):
        CODEC.decompress(gzip.compress(DATA) + tail, 10 * len(DATA))


def test_a_wrong_checksum() -> None:
    member = bytearray(gzip.compress(DATA))
    member[-8] ^= 1
    with pytest.raises(CorruptBatch, match="incorrect data check"):
        CODEC.decompress(member, len(DATA))


def test_zlibs_own_format_is_not_gzip() -> None:
    import zlib

    with pytest.raises(CorruptBatch, match="header"):
        CODEC.decompress(zlib.compress(DATA), len(DATA))
