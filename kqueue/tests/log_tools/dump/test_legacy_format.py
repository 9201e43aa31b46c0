from __future__ import annotations

import pytest

from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.decoders.values import record_decoder, value_decoder
from kqueue.log_tools.dump import DumpOptions
from kqueue.log_tools.dump.legacy_format import legacy_lines
from kqueue.records.builder import BatchBuilder
from kqueue.records.message_set import encode_entry, encode_set
from kqueue.records.record import COMMIT, Record
from kqueue.tests.log.helpers import marker
from kqueue.tests.log_tools.dump.sample_logs import batches

TIME = 1_500_000_000_000
CONTENTS = DumpOptions(records=True, contents=True, form="legacy")


def test_the_lines_that_the_module_draws() -> None:
    """S7.2: offset, position, time, isvalid, sizes, magic, codec, crc, key and payload."""
    builder = BatchBuilder()
    builder.append(TIME, b"abc", b"hello")
    old, new = batches(encode_entry(1, 0, TIME, b"abc", b"hello") + builder.build())
    ((_, first),) = legacy_lines(old, CONTENTS)
    assert first == (
        f"offset: 0 position: 0 CreateTime: {TIME} isvalid: true payloadsize: 5 magic: 1 compresscodec: "
        "NoCompressionCodec"
        f" crc: {old.unit.crc} keysize: 3 key: abc payload: hello"
    )
    ((_, second),) = legacy_lines(new, CONTENTS)
    assert second == (
        f"offset: 0 position: {old.size} CreateTime: {TIME} isvalid: true keysize: 3 valuesize: 5 magic: 2 "
        "compresscodec: NONE"
        " producerId: -1 producerEpoch: -1 sequence: -1 isTransactional: false headerKeys: [] key: abc payload: hello"
    )


def test_messages_in_a_wrapper_have_its_position_and_codec_and_their_own_checksums() -> None:
    records = [Record(offset, TIME + offset, None, b"v%d" % offset) for offset in (5, 6, 7)]
    first = encode_entry(1, 4, TIME, None, None)
    _, wrapper = batches(first + encode_set(records, 1, codec_id=1))
    lines = list(legacy_lines(wrapper, CONTENTS))
    assert [offset for offset, _ in lines] == [5, 6, 7]
    crcs = set()
    for (offset, line), record in zip(lines, records, strict=True):
        start, _, rest = line.partition(" crc: ")
        assert start == (
            f"offset: {offset} position: {len(first)} CreateTime: {record.timestamp} isvalid: true"
            " payloadsize: 2 magic: 1 compresscodec: GZIPCompressionCodec"
        )
        crc, _, payload = rest.partition(" ")
        assert payload == f"payload: v{offset}"
        crcs.add(crc)
    assert len(crcs - {str(wrapper.unit.crc)}) == 3


def test_a_marker_shows_what_it_ends_and_no_contents() -> None:
    (batch,) = batches(bytes(marker(COMMIT, 7, coordinator_epoch=3)))
    ((_, line),) = legacy_lines(batch, CONTENTS)
    assert line.endswith(" isTransactional: true headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 3")


def test_a_wrong_checksum_is_shown() -> None:
    data = bytearray(encode_entry(0, 0, -1, None, b"hello"))
    data[-1] ^= 1
    ((_, line),) = legacy_lines(batches(bytes(data))[0], CONTENTS)
    assert line.startswith("offset: 0 position: 0 NoTimestampType: -1 isvalid: false payloadsize: 5 magic: 0 ")


def test_undecodable_record_is_raised_after_all_lines() -> None:
    options = DumpOptions(
        contents=True, form="legacy", decode=record_decoder(value_decoder("string"), value_decoder("short"))
    )
    (batch,) = batches(
        encode_set([Record(offset, TIME, b"k", value) for offset, value in enumerate((b"", b"\0\7"))], 1, codec_id=1)
    )
    lines: list[str] = []
    with pytest.raises(DecodeError, match="^log, position 0: offset 0: a short has 2 bytes, found 0"):
        lines.extend(line for _, line in legacy_lines(batch, options))
    assert [line.partition(" keysize: 1")[2] for line in lines] == ["", " key: k payload: 7"]
