"""Decoders of single keys and values.

They are Kafka's own (also by the names of their classes), the types of Kafka's serializers, and
functions of the user.
"""

from __future__ import annotations

import importlib
import struct
import uuid
from collections.abc import Callable

from kqueue.base.names import did_you_mean
from kqueue.base.text import java_text
from kqueue.log_tools.errors import DecodeError
from kqueue.records.record import Record

Decoder = Callable[[Record], tuple[str | None, str | None]]
"""Returns a record's key and value as text, None: null. Raises: DecodeError."""

ValueDecoder = Callable[[bytes], object]


def text_decoder(record: Record) -> tuple[str | None, str | None]:
    """Return key and value as UTF-8, with replacement characters for invalid bytes."""
    key, value = record.key, record.value
    return None if key is None else java_text(key), None if value is None else java_text(value)


def record_decoder(key: ValueDecoder, value: ValueDecoder) -> Decoder:
    """Return a decoder of records that combines one of keys and one of values."""

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
    """Return the decoder of this name.

    Args:
        name: one of `VALUE_DECODERS`, the name of one of Kafka's decoder or deserializer classes,
            or ``module:function``; the function receives bytes and returns what to show.
    Raises: ValueError: there is no such decoder.
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
            f"there is no decoder {name!r}{did_you_mean(short, VALUE_DECODERS)} "
            f"(known: {known}; your own: MODULE:FUNCTION)"
        )
    return VALUE_DECODERS[short]


def _imported(name: str) -> ValueDecoder:
    module, _, attribute = name.partition(":")
    try:
        function: ValueDecoder = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"the decoder {name!r} can't be loaded: {error}") from None
    if not callable(function):
        raise ValueError(f"the decoder {name!r} is no function but {function!r}")

    def decode(data: bytes) -> object:
        try:
            return function(data)
        except Exception as error:  # a user's function may raise anything; one record must not end the dump
            raise DecodeError(f"{name} failed: {type(error).__name__}: {error}") from error

    return decode
