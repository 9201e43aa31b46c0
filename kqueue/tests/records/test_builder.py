from __future__ import annotations

import pytest
from crc32c import crc32c

from kqueue.base.errors import InvalidRecord, PluginError
from kqueue.records.batch import BATCH_OVERHEAD, check_crc, iter_records, read_header
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, BatchBuilder, build_batch
from kqueue.records.record import COMMIT, Record, control_key_value
from kqueue.tests.tables import for_each


def test_bytes_of_a_small_batch() -> None:
    """Drawn by hand from the format."""
    builder = BatchBuilder()
    builder.append(1000, b"k", b"vv", [("h", b"x")])
    builder.append(999, None, None)
    records = "1a 00 00 00 02 6b 04 7676 02 02 68 02 78" + "0c 00 01 02 01 01 00"
    covered = bytes.fromhex(
        "0000 00000001 00000000000003e8 00000000000003e8 ffffffffffffffff ffff ffffffff 00000002" + records
    )
    start = bytes.fromhex("0000000000000000") + (len(covered) + 9).to_bytes(4) + bytes.fromhex("ffffffff 02")
    assert builder.build().hex() == (start + crc32c(covered).to_bytes(4) + covered).hex()


def test_size_estimate_is_the_size_without_compression() -> None:
    builder = BatchBuilder()
    assert (builder.size_estimate, builder.count) == (BATCH_OVERHEAD, 0)
    for number in range(300):
        builder.append(number * 1000, b"k" * number, b"v" * (number * 7), (("h", None),))
    estimate = builder.size_estimate
    assert builder.count == 300
    assert len(builder.build()) == estimate


def test_a_compressed_batch_is_smaller() -> None:
    records = [Record(offset, 0, b"the same key", b"the same value") for offset in range(100)]
    plain = len(build_batch(records))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        assert len(build_batch(records, codec=codec)) < plain / 2, codec


def test_levels_reach_the_codec() -> None:
    records = [Record(0, 0, None, b"".join(b"%d " % (number * number) for number in range(5000)))]
    assert len(build_batch(records, codec="gzip", level=9)) < len(build_batch(records, codec="gzip", level=1))


def test_base_and_greatest_time() -> None:
    builder = BatchBuilder(timestamp_type=LOG_APPEND_TIME_TYPE)
    for time in (50, 20, 70, 60):
        builder.append(time, None, None)
    batch = builder.build()
    assert read_header(batch)[7:9] == (50, 70)
    assert {record.timestamp for record in iter_records(batch)} == {70}


def test_offsets_with_gaps_and_an_end_of_their_own() -> None:
    builder = BatchBuilder(base_offset=100, base_sequence=5, producer_id=1, epoch=0)
    builder.append(0, b"a", None, offset=103)
    builder.append(0, b"b", None)
    builder.append(0, b"c", None, offset=110)
    batch = builder.build(last_offset=120)
    assert (read_header(batch).last_offset, read_header(batch).record_count) == (120, 3)
    assert [(record.offset, record.sequence) for record in iter_records(batch)] == [(103, 8), (104, 9), (110, 15)]


@for_each("offset", [99, 102, 100 + 2**31])
def test_an_offset_that_can_not_follow(offset: int) -> None:
    builder = BatchBuilder(base_offset=100)
    builder.append(0, None, None, offset=102)
    with pytest.raises(InvalidRecord, match="can't follow 102"):
        builder.append(0, None, None, offset=offset)


def test_the_farthest_offset() -> None:
    builder = BatchBuilder(base_offset=100)
    builder.append(0, None, None, offset=100 + 2**31 - 1)
    assert [record.offset for record in iter_records(builder.build())] == [100 + 2**31 - 1]


def test_a_delete_horizon_is_the_base_of_the_times() -> None:
    builder = BatchBuilder(delete_horizon_ms=5000)
    builder.append(100, b"k", None)
    header = read_header(batch := builder.build())
    assert header.delete_horizon_ms == 5000
    assert header.max_timestamp == 100
    assert next(iter_records(batch)).timestamp == 100


def test_built_marker_is_a_control_batch() -> None:
    key, value = control_key_value(COMMIT, 0)
    builder = BatchBuilder(producer_id=1, epoch=2, transactional=True, control=True)
    builder.append(0, key, value)
    header = read_header(batch := builder.build())
    assert header.is_control
    assert header.is_transactional
    assert header.size == len(batch) == 78, "as Kafka's own: see its dumps"


@for_each(
    "base, time", [(2**63, 2**63), (-(2**63) - 1, -(2**63) - 1), (0, 2**63), (0, -(2**63) - 1), (2**62, -(2**63))]
)
def test_a_time_beyond_64_bits_is_refused(base: int, time: int) -> None:
    def build() -> None:
        builder = BatchBuilder()
        builder.append(base, None, None)
        builder.append(time, None, None)
        builder.build()

    with pytest.raises(InvalidRecord):
        build()


def test_a_header_name_that_is_no_text() -> None:
    with pytest.raises(InvalidRecord, match="header name"):
        BatchBuilder().append(0, None, None, [("\ud800", b"")])


def test_views_are_taken_for_keys_and_values() -> None:
    builder = BatchBuilder()
    builder.append(0, memoryview(b"key"), bytearray(b"value"), [("h", memoryview(b"x"))])
    assert list(iter_records(builder.build())) == [Record(0, 0, b"key", b"value", (("h", b"x"),))]


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(PluginError, match="did you mean 'snappy'"):
        BatchBuilder(codec="snapy")


def test_an_empty_batch_needs_a_last_offset() -> None:
    with pytest.raises(AssertionError):
        BatchBuilder().build()
    with pytest.raises(AssertionError):
        build_batch([])
    batch = BatchBuilder(codec="gzip", base_offset=5, producer_id=3, epoch=0, base_sequence=9).build(last_offset=8)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.record_count, header.last_offset, header.last_sequence, header.max_timestamp) == (0, 8, 12, -1)


def test_records_that_were_encoded_elsewhere() -> None:
    """The batch is the one that they came from."""
    for codec in ("none", "lz4"):
        settings = {"codec": codec, "producer_id": 4, "epoch": 0, "base_sequence": 7}
        plain, wanted, taken = BatchBuilder(), BatchBuilder(**settings), BatchBuilder(**settings)
        for builder in (plain, wanted):
            for number in (30, 50, 40):
                builder.append(number, b"k", b"v" * number)
        taken.append_encoded(memoryview(plain.build())[BATCH_OVERHEAD:], 3, 30, 50)
        assert (taken.count, taken.size_estimate) == (wanted.count, wanted.size_estimate)
        assert taken.build() == wanted.build()
        with pytest.raises(AssertionError):
            wanted.append_encoded(b"", 0, 0, 0)
