from __future__ import annotations

import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, DecompressedTooLarge
from kqueue.records.batch import check_crc, decompressed, iter_records, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import CODECS
from kqueue.records.recompression import recompress
from kqueue.tests.tables import for_each

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LIMIT = 1 << 24
CALLS_MAX = 100
"""On a busy machine the other thread may come too late for many of them."""


def batch_of(values: list[bytes], codec: str) -> bytearray:
    builder = BatchBuilder(codec, producer_id=7, epoch=2, base_sequence=5, transactional=True)
    for number, value in enumerate(values):
        builder.append(1000 + number, b"k%d" % number, value, [("h", value)])
    return builder.build()


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=20), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_records_and_header_stay_the_same(values: list[bytes], old: str, new: str) -> None:
    batch = batch_of(values, old)
    before = bytes(batch)
    header = read_header(batch)
    changed = recompress(batch, header, CODECS.get(new), None, LIMIT)
    after = read_header(changed)
    check_crc(changed, 0, after)
    assert after.codec_id == CODECS.get(new).id
    assert after.size == len(changed)
    own = {"batch_length", "crc", "attributes"}
    assert [(n, getattr(after, n)) for n in after._fields if n not in own] == [
        (n, getattr(header, n)) for n in header._fields if n not in own
    ]
    assert after.is_transactional
    assert decompressed(changed, 0, after, LIMIT) == decompressed(batch, 0, header, LIMIT)
    assert list(iter_records(changed)) == list(iter_records(batch))
    assert batch == before


def test_level_and_known_records_are_used() -> None:
    batch = batch_of([b"%d" % (number * number) for number in range(3000)], "none")
    header = read_header(batch)
    gzip = CODECS.get("gzip")
    fast, best = (recompress(batch, header, gzip, level, LIMIT) for level in (1, 9))
    assert len(best) < len(fast)
    known = decompressed(batch, 0, header, LIMIT)
    assert recompress(b"", header, gzip, 9, LIMIT, known) == best


def test_too_large_or_corrupt_batch_is_not_recompressed() -> None:
    batch = batch_of([b"x" * 100_000], "zstd")
    header = read_header(batch)
    with pytest.raises(DecompressedTooLarge):
        recompress(batch, header, CODECS.get("lz4"), None, 50_000)
    batch[70:] = bytes(len(batch) - 70)
    with pytest.raises(CorruptBatch):
        recompress(batch, header, CODECS.get("lz4"), None, LIMIT)


@for_each("name", ["gzip", "lz4", "snappy", "zstd"])
def test_other_threads_run_meanwhile(name: str) -> None:
    value = b"".join(b"%d;" % (number * number) for number in range(100_000))
    batch = batch_of([value], "none")
    header = read_header(batch)
    turns = 0

    def work() -> None:
        nonlocal turns
        while not ended:
            turns += 1
            time.sleep(0)

    interval_s = sys.getswitchinterval()
    ended: list[bool] = []
    thread = threading.Thread(target=work)
    thread.start()
    try:
        sys.setswitchinterval(3600)  # from here on the other thread runs where this one lets it
        for _ in range(CALLS_MAX):
            before = turns
            recompress(batch, header, CODECS.get(name), None, LIMIT)
            if turns > before:
                break
    finally:
        sys.setswitchinterval(interval_s)
        ended.append(True)
        thread.join()
    assert turns > before, f"the other thread did not run within {CALLS_MAX} calls"
