from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.codecs.none import NoneCodec


def test_bytes_as_they_are() -> None:
    codec = NoneCodec()
    assert codec.compress(b"abc", 5) == b"abc"
    assert codec.decompress(memoryview(b"abc"), 3) == b"abc"
    with pytest.raises(CorruptBatch, match="limit of 2"):
        codec.decompress(b"abc", 2)
