from __future__ import annotations

import struct

import pytest

from kqueue.log_tools.decoders import VALUE_DECODERS, DecodeError, record_decoder, text_decoder, value_decoder
from kqueue.records.record import Record
from kqueue.tests.tables import for_each


def test_null_is_none() -> None:
    assert text_decoder(Record(0, 0, None, None)) == (None, None)
    assert record_decoder(VALUE_DECODERS["long"], VALUE_DECODERS["hex"])(Record(0, 0, None, b"")) == (None, "")


@for_each(
    "name, data, shown",
    [
        ("string", b"abc", "abc"),
        ("hex", b"\x00\xff", "00ff"),
        ("short", struct.pack(">h", -5), "-5"),
        ("integer", struct.pack(">i", 7), "7"),
        ("long", struct.pack(">q", 1 << 40), "1099511627776"),
        ("float", struct.pack(">f", 0.5), "0.5"),
        ("double", struct.pack(">d", -0.25), "-0.25"),
        ("uuid", b"123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("org.apache.kafka.tools.api.StringDecoder", b"abc", "abc"),
        ("org.apache.kafka.tools.api.LongDecoder", struct.pack(">q", 3), "3"),
        ("org.apache.kafka.tools.api.IntegerDecoder", struct.pack(">i", 3), "3"),
        ("org.apache.kafka.tools.api.DefaultDecoder", b"\x01", "01"),
        ("org.apache.kafka.common.serialization.DoubleDeserializer", struct.pack(">d", 2.5), "2.5"),
        ("org.apache.kafka.common.serialization.ByteArrayDeserializer", b"\x02", "02"),
        ("kafka.serializer.StringDecoder", b"abc", "abc"),
        ("builtins:len", b"four", "4"),
    ],
)
def test_decoder_is_selected_by_name(name: str, data: bytes, shown: str) -> None:
    decode = record_decoder(value_decoder(name), value_decoder(name))
    assert decode(Record(0, 0, data, data)) == (shown, shown)


@for_each("name", ["short", "integer", "long", "float", "double", "uuid"])
def test_bytes_that_are_none_such(name: str) -> None:
    with pytest.raises(DecodeError, match="found"):
        value_decoder(name)(b"abc")


def test_ones_own_may_fail() -> None:
    with pytest.raises(DecodeError, match="builtins:int failed: ValueError: invalid literal"):
        value_decoder("builtins:int")(b"x")


@for_each(
    "name, sentence",
    [
        ("strin", "there is no decoder 'strin'; did you mean 'string'?"),
        ("com.example.Avro", "known: string, hex"),
        ("no_such_module:f", "can't be loaded: No module named"),
        ("builtins:nothing", "can't be loaded"),
        (":f", "can't be loaded"),
        ("builtins:__name__", "is no function but 'builtins'"),
    ],
)
def test_names_that_are_none(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match="decoder") as caught:
        value_decoder(name)
    assert sentence in str(caught.value)
