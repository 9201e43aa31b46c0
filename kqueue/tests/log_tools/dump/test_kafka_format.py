from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.decoders.values import record_decoder, value_decoder
from kqueue.log_tools.dump import DumpOptions
from kqueue.log_tools.dump.kafka_format import batch_line, entries_of, record_lines, records_of
from kqueue.log_tools.segments import Batch
from kqueue.records.builder import LOG_APPEND_TIME_TYPE, BatchBuilder
from kqueue.records.message_set import encode_entry, encode_set
from kqueue.records.record import ABORT, Record
from kqueue.tests.log.helpers import batch, marker
from kqueue.tests.log_tools.dump.sample_logs import batches
from kqueue.tests.tables import for_each

CONTENTS = DumpOptions(records=True, contents=True)


def one(data: bytes | bytearray) -> Batch:
    (only_batch,) = batches(bytes(data))
    return only_batch


def fields(line: str) -> dict[str, str]:
    words = line.removeprefix("| ").split()
    return dict(zip((name.removesuffix(":") for name in words[::2]), words[1::2], strict=True))


def test_the_line_of_a_batch_tells_its_header() -> None:
    """S7.2: offset, position, time, size, magic, codec, crc, isvalid, and the fields of magic 2."""
    settings = {
        "producer_id": 9,
        "epoch": 2,
        "base_sequence": 4,
        "transactional": True,
        "base_offset": 10,
        "leader_epoch": 3,
    }
    dumped = one(
        batch(
            b"a", b"b", time_ms=70, codec="gzip", delete_horizon_ms=60, timestamp_type=LOG_APPEND_TIME_TYPE, **settings
        )
    )
    assert fields(batch_line(dumped)) == {
        "baseOffset": "10",
        "lastOffset": "11",
        "count": "2",
        "baseSequence": "4",
        "lastSequence": "5",
        "producerId": "9",
        "producerEpoch": "2",
        "partitionLeaderEpoch": "3",
        "isTransactional": "true",
        "isControl": "false",
        "deleteHorizonMs": "OptionalLong[60]",
        "position": "0",
        "LogAppendTime": "71",
        "size": str(dumped.size),
        "magic": "2",
        "compresscodec": "gzip",
        "crc": str(dumped.unit.crc),
        "isvalid": "true",
    }


def test_an_old_message_has_a_shorter_line_and_magic_0_no_time() -> None:
    first, second = batches(encode_entry(0, 5, -1, None, b"v") + encode_entry(1, 6, 77, None, b"v"))
    assert batch_line(first).startswith(
        "offset: 5 position: 0 NoTimestampType: -1 size: 27 magic: 0 compresscodec: none "
    )
    assert batch_line(second).startswith("offset: 6 position: 27 CreateTime: 77 size: 35 magic: 1 ")


def test_codecs_without_a_name_keep_their_number() -> None:
    data = batch(b"a")
    data[22] |= 7
    assert " compresscodec: unknown(7) " in batch_line(one(data))
    assert batch_line(one(data)).endswith(" isvalid: false")


def test_nulls_have_no_place_and_empty_values_have() -> None:
    builder = BatchBuilder()
    for key, value in ((None, None), (None, b""), (b"k", None), (b"k", b"v")):
        builder.append(5, key, value, headers=[("h", b"1"), ("i", None)])
    dumped = one(builder.build())
    lines = [line.partition("headerKeys: [h,i]") for _, line in record_lines(dumped, CONTENTS)]
    assert [end for _, _, end in lines] == ["", " payload: ", " key: k", " key: k payload: v"]
    assert [fields(start)["valueSize"] for start, _, _ in lines] == ["-1", "0", "-1", "1"]
    bare = DumpOptions(records=True, contents=True, skip_metadata=True)
    assert [line for _, line in record_lines(dumped, bare)] == ["", "| payload: ", "| key: k", "| key: k payload: v"]


def test_a_marker_tells_its_transaction_and_no_contents() -> None:
    dumped = one(marker(ABORT, 7, coordinator_epoch=3))
    ((_, line),) = record_lines(dumped, CONTENTS)
    assert line.endswith(" headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 3")


def test_first_undecodable_record_is_raised_after_all_lines() -> None:
    options = DumpOptions(
        records=True, contents=True, decode=record_decoder(value_decoder("string"), value_decoder("short"))
    )
    lines: list[str] = []
    with pytest.raises(DecodeError, match="^log, position 0: offset 0: a short has 2 bytes, found 3"):
        lines.extend(line for _, line in record_lines(one(batch(b"abc", b"\0\7", b"")), options))
    assert [line.partition("headerKeys: []")[2] for line in lines] == ["", " payload: 7", ""]


def test_records_are_read_whether_the_checksum_is_right_or_not() -> None:
    data = batch(b"abc", b"def")
    data[-2] ^= 1
    damaged = one(data)
    assert not damaged.is_valid
    assert [record.value for record, _ in records_of(damaged)] == [b"abc", b"deg"]
    data[61] = 0xFF
    with pytest.raises(CorruptBatch):
        list(records_of(one(data)))


@for_each("magic, append_time", [(0, False), (1, False), (1, True)])
def test_messages_in_a_wrapper_get_their_own_offsets_and_its_append_time(magic: int, append_time: bool) -> None:
    records = [Record(offset, 100 - offset, None, b"v") for offset in (5, 6, 8)]
    dumped = one(encode_set(records, magic, codec_id=1, log_append_time=append_time))
    times = [-1] * 3 if magic == 0 else [95] * 3 if append_time else [95, 94, 92]
    assert [(offset, time) for _, offset, time in entries_of(dumped)] == list(zip((5, 6, 8), times, strict=True))
