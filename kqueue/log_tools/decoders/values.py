"""Decoders of single keys and values: Kafka's own, by the names of their classes too, the types of
its serializers, and the user's.
"""

from __future__ import annotations

import importlib
import re
import struct
import uuid
from collections.abc import Callable

from kqueue.base.names import did_you_mean
from kqueue.log_tools.decoders.contract import DecodeError, Decoder
from kqueue.records.record import Record

ValueDecoder = Callable[[bytes], object]
# A surrogate, which UTF-8 has no room for: Java's decoder takes it for one mistake, whole or cut
# off, Python's for two or three.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def java_text(data: bytes) -> str:
    """UTF-8 as text, with as many replacement characters for what is none as Java puts there."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode("utf-8", "replace")


def text_decoder(record: Record) -> tuple[str | None, str | None]:
    """Key and value as UTF-8; what is none is shown as a replacement character."""
    key, value = record.key, record.value
    return None if key is None else java_text(key), None if value is None else java_text(value)


def record_decoder(key: ValueDecoder, value: ValueDecoder) -> Decoder:
    """A decoder of records out of one for keys and one for values."""

    def decode(record: Record) -> tuple[str | None, str | None]:
        return _text(key, record.key), _text(value, record.value)

    return decode


def _text(decode: ValueDecoder, data: bytes | None) -> str | None:
    return None if data is None else str(decode(data))


def _number(name: str, code: str) -> ValueDecoder:
    layout = struct.Struct(">" + code)

    def decode(data: bytes) -> object:
        if len(data) != layout.size:
            raise DecodeError(f"{name} has {layout.size} bytes, found {len(data)}")
        return layout.unpack(data)[0]

    return decode


def _uuid(data: bytes) -> object:
    try:
        return uuid.UUID(data.decode("ascii"))  # Kafka's serializer writes it as text
    except ValueError:
        raise DecodeError(f"a UUID has 36 characters, found {data[:40]!r}") from None


VALUE_DECODERS: dict[str, ValueDecoder] = {
    "string": java_text,
    "hex": bytes.hex,
    "short": _number("a short", "h"),
    "integer": _number("an integer", "i"),
    "long": _number("a long", "q"),
    "float": _number("a float", "f"),
    "double": _number("a double", "d"),
    "uuid": _uuid,
}
_OF_CLASS = {"default": "hex", "bytearray": "hex", "bytes": "hex"}


def value_decoder(name: str) -> ValueDecoder:
    """The decoder of this name: one of `VALUE_DECODERS`, the class of one of Kafka's, or
    ``module:function`` of one's own.

    A function gets the bytes and returns what is to be shown. Raises ValueError: there is none
    such.
    """
    if ":" in name:
        return _imported(name)
    short = name.rpartition(".")[2]
    for ending in ("Decoder", "Deserializer"):
        short = short.removesuffix(ending)
    short = _OF_CLASS.get(short.lower(), short.lower())
    if short not in VALUE_DECODERS:
        known = ", ".join(VALUE_DECODERS)
        raise ValueError(
            f"there is no decoder {name!r}{did_you_mean(short, VALUE_DECODERS)} (known: {known}; your own: MODULE:FUNCTION)"
        )
    return VALUE_DECODERS[short]


def _imported(name: str) -> ValueDecoder:
    module, _, attribute = name.partition(":")
    try:
        found: ValueDecoder = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"the decoder {name!r} can't be loaded: {error}") from None
    if not callable(found):
        raise ValueError(f"the decoder {name!r} is no function but {found!r}")

    def decode(data: bytes) -> object:
        try:
            return found(data)
        except Exception as error:  # a user's function may fail in any way; one record must not end the dump
            raise DecodeError(f"{name} failed: {type(error).__name__}: {error}") from error

    return decode
