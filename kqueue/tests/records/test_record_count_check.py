from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import InvalidRecord, KqueueError
from kqueue.records.batch import BATCH_OVERHEAD, HEADER, iter_records, read_header
from kqueue.records.builder import BatchBuilder, build_batch
from kqueue.records.record import Record
from kqueue.records.record_count_check import check_compressed, check_record_lengths
from kqueue.tests.records.strategies import CODEC_NAMES, record_lists
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners, examples

NOW = 1_700_000_000_000
LIMIT = 1 << 25
SIZES = {"small": (0, 40), "equal": (100, 100), "kilobyte": (500, 1500), "skewed": (0, 5)}


def built(
    count: int, sizes: tuple[int, int] = (0, 40), codec: str = "none", *, last: int = 0, seed: int = 1
) -> bytearray:
    rng = random.Random(seed)
    builder = BatchBuilder(codec)
    for number in range(count):
        size = last if last and number == count - 1 else rng.randint(*sizes)
        builder.append(NOW + number // 3, None, rng.randbytes(size))
    return builder.build()


def check(batch: bytes | bytearray, count: int | None = None) -> None:
    header, view = read_header(batch), memoryview(batch)
    count = header.record_count if count is None else count
    if header.codec_id:
        check_compressed(view, header.codec_id, count, LIMIT)
    else:
        check_record_lengths(view, BATCH_OVERHEAD, len(view), count)


@for_each("codec", CODEC_NAMES)
@for_each("sizes", SIZES.values())
@for_each("count", [1, 2, 8, 9, 63, 64, 65, 66, 200])
def test_a_batch_that_is_right(codec: str, sizes: tuple[int, int], count: int) -> None:
    check(built(count, sizes, codec))


@pytest.mark.parametrize("codec", corners(CODEC_NAMES, "none", "gzip"))
@for_each("sizes", [(0, 40), (40, 40), (0, 5)])
@for_each("count", [8192, 8194])
def test_a_batch_of_many_records_that_is_right(codec: str, sizes: tuple[int, int], count: int) -> None:
    check(built(count, sizes, codec))


@for_each("last", [5000, 20_000, 300_000])
@for_each("count", [2, 65, 300])
def test_a_last_record_much_larger_than_the_others(count: int, last: int) -> None:
    check(built(count, last=last))


@settings(max_examples=examples(60), deadline=None)
@given(records=record_lists(), codec=st.sampled_from(CODEC_NAMES))
def test_built_batch_passes(records: list[Record], codec: str) -> None:
    check(build_batch([record._replace(offset=offset) for offset, record in enumerate(records)], codec=codec))


@for_each("count", [1, 2, 8, 64, 65, 66, 300, 9000])
@for_each("more", [-1, 1, 100, 2**30])
def test_another_count_than_there_are_records(count: int, more: int) -> None:
    batch = built(count)
    if count + more >= 1:
        with pytest.raises(InvalidRecord, match=f"expected {count + more} records"):
            check(batch, count + more)


@for_each("codec", [name for name in CODEC_NAMES if name != "none"])
@for_each("more", [-1, 1, 2**30])
def test_another_count_than_there_are_compressed_records(codec: str, more: int) -> None:
    with pytest.raises(InvalidRecord):
        check(built(5, (40, 40), codec), 5 + more)


@for_each("count", [1, 3, 64, 65, 300])
@for_each("change", ["cut", "left over", "negative length", "long length", "random bytes", "first cut"])
def test_bytes_that_are_not_these_records(count: int, change: str) -> None:
    batch = built(count)
    if change == "cut":
        del batch[-1]
    elif change == "left over":
        batch += b"\0"
    elif change == "negative length":
        batch[BATCH_OVERHEAD] = 1
    elif change == "long length":
        batch[BATCH_OVERHEAD : BATCH_OVERHEAD + 1] = b"\xfe\xff\xff\xff\x0f"
    elif change == "first cut":
        del batch[BATCH_OVERHEAD]
    else:
        batch[BATCH_OVERHEAD:] = random.Random(1).randbytes(len(batch) - BATCH_OVERHEAD)
    with pytest.raises(InvalidRecord):
        check(batch, count)


@for_each("codec", [name for name in CODEC_NAMES if name != "none"])
@for_each("size", [3, 100, 20_000])
def test_bytes_that_no_codec_made(codec: str, size: int) -> None:
    batch = built(5, codec=codec)
    batch[BATCH_OVERHEAD:] = random.Random(size).randbytes(size)
    if codec == "snappy" and size > 4096:
        return  # raw blocks have no mark to know them by
    with pytest.raises(InvalidRecord, match="can't be read"):
        check(batch, 5)


@for_each("codec", ["gzip", "lz4"])
def test_compressed_records_that_were_cut(codec: str) -> None:
    batch = built(300, (90, 100), codec)
    assert len(batch) > 20_000
    with pytest.raises(InvalidRecord, match="can't be read"):
        check(batch[:-500])


def test_compressed_records_beyond_the_limit() -> None:
    batch = built(5, codec="zstd")
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(record_count=LIMIT, last_offset_delta=LIMIT - 1))
    with pytest.raises(InvalidRecord, match=f"counts {LIMIT} records"):
        check(batch)


def test_a_small_batch_that_expands_a_lot_is_left_to_the_full_check() -> None:
    builder = BatchBuilder("zstd")
    builder.append(NOW, None, bytes(1_000_000))
    batch = builder.build()
    assert len(batch) < 1000
    check(batch)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), codec=st.sampled_from(CODEC_NAMES), count=st.sampled_from([1, 3, 70]))
def test_any_bytes_raise_only_our_errors_and_small_batches_that_pass_have_the_count(
    data: st.DataObject, codec: str, count: int
) -> None:
    batch = built(count, (0, 10), codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(BATCH_OVERHEAD, len(batch) - 1))] = data.draw(st.integers(0, 255))
    try:
        check(batch)
        records = sum(1 for _ in iter_records(batch)) if count < 64 and codec == "none" else count
    except KqueueError:
        return
    assert records == count
