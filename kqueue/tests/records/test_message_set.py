from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, KqueueError, UnsupportedCodec
from kqueue.records.message_set import check_entry, encode_entry, encode_set, entry_records, iter_entries
from kqueue.records.record import Record
from kqueue.tests.records.strategies import record_lists
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

MAGICS = for_each("magic", [0, 1])
CODEC_IDS = for_each("codec_id", [0, 1, 2, 3])
LIMIT = 1 << 20
RECORDS = [Record(10, 1000, b"k", b"value"), Record(11, 1001, None, b""), Record(15, 999, b"", None)]


def read(data: bytes) -> list[Record]:
    records = []
    for entry in iter_entries(data):
        check_entry(data, entry)
        records += entry_records(entry, LIMIT)
    return records


def timeless(records: list[Record], magic: int) -> list[Record]:
    """What this format keeps of the records."""
    return [record._replace(timestamp=record.timestamp if magic else -1, headers=()) for record in records]


def test_bytes_of_both_formats() -> None:
    """Drawn by hand from the format."""
    covered = bytes.fromhex("01 00 00000000000003e8 00000001 6b ffffffff")
    entry = bytes.fromhex("0000000000000007 00000017") + zlib.crc32(covered).to_bytes(4) + covered
    assert encode_entry(1, 7, 1000, b"k", None) == entry
    covered = bytes.fromhex("00 00 ffffffff 00000002 7676")
    entry = bytes.fromhex("0000000000000007 00000010") + zlib.crc32(covered).to_bytes(4) + covered
    assert encode_entry(0, 7, 1000, None, b"vv") == entry


@MAGICS
@CODEC_IDS
def test_round_trip(magic: int, codec_id: int) -> None:
    assert read(encode_set(RECORDS, magic, codec_id)) == timeless(RECORDS, magic)


@MAGICS
@CODEC_IDS
@settings(max_examples=examples(20), deadline=None)
@given(records=record_lists(gaps=True))
def test_encoded_message_set_reads_the_same(magic: int, codec_id: int, records: list[Record]) -> None:
    assert read(encode_set(records, magic, codec_id)) == timeless(records, magic)


def test_a_wrapper_has_the_last_offset_and_the_greatest_time() -> None:
    for magic, inner in ((0, [10, 11, 15]), (1, [0, 1, 5])):
        (entry,) = iter_entries(encode_set(RECORDS, magic, 1))
        assert (entry.last_offset, entry.next_offset, entry.max_timestamp, entry.codec_id) == (
            15,
            16,
            1001 if magic else -1,
            1,
        )
        assert entry.value is not None
        assert [message.offset for message in iter_entries(zlib.decompress(entry.value, 31))] == inner


@CODEC_IDS
def test_log_append_time_of_the_wrapper_is_the_time_of_all(codec_id: int) -> None:
    data = encode_set([record._replace(timestamp=5) for record in RECORDS], 1, codec_id, log_append_time=True)
    assert all(entry.is_log_append_time for entry in iter_entries(data))
    assert {record.timestamp for record in read(data)} == {5}


def test_a_broker_sets_only_the_wrappers_time() -> None:
    (entry,) = iter_entries(encode_set(RECORDS, 1, 1))
    data = encode_entry(1, 15, 7777, None, entry.value, 0x08 | 1)
    assert [record.timestamp for record in read(data)] == [7777] * 3


def test_empty_message_set_has_no_bytes_and_no_entries() -> None:
    assert encode_set([], 1, 1) == b""
    assert list(iter_entries(b"")) == []


@MAGICS
def test_iteration_stops_at_a_cut_off_message(magic: int) -> None:
    data = encode_set(RECORDS, magic)
    ends = [entry.position + entry.size for entry in iter_entries(data)]
    assert ends[-1] == len(data)
    for end in range(len(data)):
        assert (
            len(list(iter_entries(data, 0, end)))
            == len(list(iter_entries(data[:end])))
            == sum(edge <= end for edge in ends)
        )


@MAGICS
def test_every_flipped_bit_after_the_checksum_is_seen(magic: int) -> None:
    data = encode_entry(magic, 5, 1000, b"key", b"value")
    for bit in range(12 * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptBatch, StopIteration)):
            check_entry(flipped, next(iter_entries(flipped)))


def lying(magic: int, place: int, number: int) -> bytes:
    data = bytearray(encode_entry(magic, 5, 1000, b"key", b"value"))
    data[place : place + 4] = number.to_bytes(4, signed=True)
    return bytes(data)


@for_each(
    "data",
    [lying(0, 8, 13), lying(1, 8, 21), lying(0, 8, -1), lying(0, 18, -2), lying(0, 18, 4), lying(0, 18, 2**31 - 1)],
)
def test_lengths_that_can_not_be(data: bytes) -> None:
    with pytest.raises(CorruptBatch, match=r"bytes at least|length of"):
        list(iter_entries(data))


@for_each("number", [-2, 4, 6, 2**31 - 1])
def test_a_value_that_does_not_fill_its_message(number: int) -> None:
    with pytest.raises(CorruptBatch, match=r"length of|ends at"):
        list(iter_entries(lying(0, 25, number)))


def test_a_magic_that_is_not_of_these_formats() -> None:
    data = bytearray(encode_entry(1, 5, 1000, b"key", b"value"))
    for magic in (2, 127, 255):
        data[16] = magic
        with pytest.raises(CorruptBatch, match="magic 0 or 1"):
            list(iter_entries(data))


def wrapper(magic: int, content: bytes | None, codec_id: int = 1) -> bytes:
    if content is not None:
        stream = zlib.compressobj(wbits=31)
        content = stream.compress(content) + stream.flush()
    return encode_entry(magic, 5, 1000, None, content, codec_id)


def spoiled(entry: bytes) -> bytes:
    return entry[:-1] + bytes([entry[-1] ^ 1])


ONE = encode_entry(1, 0, 1000, b"k", b"v")
BAD_WRAPPERS = {
    "no value": wrapper(1, None),
    "nothing inside": wrapper(1, b""),
    "a message of another magic": wrapper(0, ONE),
    "a wrapper": wrapper(1, wrapper(1, ONE)),
    "a batch of magic 2": wrapper(1, bytes(16) + b"\2" + bytes(60)),
    "a message and bytes left over": wrapper(1, ONE + b"\0"),
    "a message that is cut off": wrapper(1, ONE + ONE[:-1]),
    "a wrong checksum inside": wrapper(1, spoiled(ONE)),
    "no gzip": encode_entry(1, 5, 1000, None, b"no gzip", 1),
}


@for_each("data", BAD_WRAPPERS.values())
def test_wrappers_that_can_not_be(data: bytes) -> None:
    assert len(read(wrapper(1, ONE))) == 1, "the plain wrapper must be right, or this test shows nothing"
    with pytest.raises(CorruptBatch):
        read(data)


@MAGICS
@for_each("codec_id", [4, 5, 7])
def test_codecs_that_these_formats_do_not_have(magic: int, codec_id: int) -> None:
    with pytest.raises(UnsupportedCodec):
        read(wrapper(magic, ONE, codec_id))
    with pytest.raises(UnsupportedCodec):
        encode_set(RECORDS, magic, codec_id)


@MAGICS
@for_each("codec_id", [1, 2, 3])
def test_a_bomb_meets_the_limit(magic: int, codec_id: int) -> None:
    (entry,) = iter_entries(encode_set([Record(0, 0, None, bytes(100_000))], magic, codec_id))
    assert entry.size < 10_000
    assert len(entry_records(entry, 100_100)) == 1
    with pytest.raises(CorruptBatch):
        entry_records(entry, 100_000)


@MAGICS
@CODEC_IDS
@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_damage_raises_only_our_errors(magic: int, codec_id: int, data: st.DataObject) -> None:
    message_set = bytearray(encode_set(RECORDS, magic, codec_id))
    for _ in range(data.draw(st.integers(1, 3))):
        message_set[data.draw(st.integers(0, len(message_set) - 1))] = data.draw(st.integers(0, 255))
    try:
        for entry in iter_entries(message_set):
            entry_records(entry, LIMIT)
    except KqueueError:
        pass
