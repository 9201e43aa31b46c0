"""Values decoded by schemas: of a registry, by the frame before each value, or one that is given.

The modules of `kqueue.spark.value_formats` that find schemas need no Spark, only the extra
`schemas`. A registry is asked once for each schema; while it does not answer, no page waits for it.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.console.messages.json_layout import parse_json
from kqueue.console.messages.plain_values import plain
from kqueue.console.messages.value_view import DecodedValue
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.errors import OptionError, RegistryFailed, SchemaRefused
from kqueue.spark.value_formats.contract import FormatName, SchemaText, ValueSettings, shortened
from kqueue.spark.value_formats.framing import HEADER_BYTES, MAGIC, FrameError, read_frame
from kqueue.spark.value_formats.registry import Registry

REGISTRY_TIMEOUT_S = 2.0
PAUSE_S = 30.0
"""A registry that failed is not asked again for so long."""
SCHEMAS_MAX = 1_000
"""Schemas that are remembered, and answers that there is none."""
Decode = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class GivenSchema:
    """A schema by which values are decoded when a reader chooses "by schema".

    `file`: its path. `message`: of Protobuf, the message's full name; None: the first.
    """

    format: FormatName
    file: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """Where schemas come from. None: not from there."""

    registry: RegistrySettings | None = None
    given: GivenSchema | None = None


class SchemaValues:
    """Decodes keys and values by their schemas.

    Args:
        now_s: returns seconds of a clock that only goes forward.
    Raises: SchemaRefused, OptionError, ExtraNeeded: the given schema is of no use.
    Thread: any; one at a time asks the registry.
    """

    def __init__(self, settings: SchemaSettings, *, now_s: Callable[[], float] = monotonic_s) -> None:
        self._registry = settings.registry
        self._given = None if settings.given is None else _given_decoder(settings.given)
        self._given_name = "" if settings.given is None else settings.given.file
        self._now_s = now_s
        self._lock = threading.Lock()
        self._decoders: dict[tuple[int, tuple[int, ...]], tuple[Decode, str] | str] = {}
        self._formats: dict[int, FormatName | str] = {}
        self._paused_until_s = float("-inf")
        self._failure = ""

    def applies_to(self, data: bytes, *, is_key: bool) -> bool:
        """Return whether there is a registry, and the bytes begin as a frame does."""
        return self._registry is not None and len(data) >= HEADER_BYTES and data[0] == MAGIC

    def decode(self, data: bytes, *, is_key: bool) -> DecodedValue:
        """Return the value. Raises: ValueError: with the reason."""
        try:
            if self.applies_to(data, is_key=is_key):
                return self._framed(data)
            if self._given is None:
                raise ValueError("it has no frame of a schema registry, which begins with a byte 0 and the schema's id")
            return DecodedValue(self._given(data), self._given_name)
        except (FrameError, SchemaRefused, RegistryFailed, ExtraNeeded) as error:
            raise ValueError(shortened(error)) from None
        except ImportError as error:
            raise ValueError(f"the package {error.name} is missing: {install_hint('schemas')}") from None

    def _framed(self, data: bytes) -> DecodedValue:
        with self._lock:
            schema_id = read_frame(data, with_indexes=False).schema_id
            format = self._asked(self._formats, schema_id, lambda: self._client("avro").format_of(schema_id))
            frame = read_frame(data, with_indexes=format == "protobuf")
            key = frame.schema_id, frame.indexes
            decode, name = self._asked(self._decoders, key, lambda: self._decoder(format, *key))
        return DecodedValue(decode(data[frame.start :]), f"{name} (schema {schema_id})")

    def _asked(self, known: dict[Any, Any], key: Any, ask: Callable[[], Any]) -> Any:
        """Return what is known, or what the registry says; raise what it refused before."""
        if key not in known:
            if self._now_s() < self._paused_until_s:
                raise RegistryFailed(self._failure)
            if len(known) >= SCHEMAS_MAX:
                known.clear()
            try:
                known[key] = ask()
            except SchemaRefused as error:
                known[key] = error
            except RegistryFailed as error:
                self._failure, self._paused_until_s = str(error), self._now_s() + PAUSE_S
                raise
        if isinstance(known[key], SchemaRefused):
            raise SchemaRefused(str(known[key]))
        return known[key]

    def _client(self, format: FormatName) -> Registry:
        assert self._registry is not None
        return Registry(self._registry, format, REGISTRY_TIMEOUT_S)

    def _decoder(self, format: FormatName, schema_id: int, indexes: tuple[int, ...]) -> tuple[Decode, str]:
        if format == "json-schema":
            return _json, "JSON Schema"
        schema = self._client(format).by_id(schema_id)
        if format == "avro":
            return _avro_decoder(schema)
        from kqueue.spark.value_formats.protobuf_files import indexed_message

        return _protobuf_decoder(indexed_message(schema, indexes))


def _given_decoder(given: GivenSchema) -> Decode:
    from kqueue.spark.value_formats.opening import find_schema

    schema = find_schema(ValueSettings(given.format, given.file, message=given.message)).schema
    if given.format == "json-schema":
        return _json
    if given.format == "avro":
        return _avro_decoder(schema)[0]
    from kqueue.spark.value_formats.protobuf_files import indexed_message, messages_of

    if given.message is None:
        return _protobuf_decoder(indexed_message(schema, (0,)))[0]
    _, pool = messages_of(schema)
    try:
        return _protobuf_decoder(pool.FindMessageTypeByName(given.message))[0]
    except KeyError:
        raise OptionError(f"{given.file} has no message {given.message!r}") from None


def _json(data: bytes) -> Any:
    return parse_json(data.decode())


def _avro_decoder(schema: SchemaText) -> tuple[Decode, str]:
    import fastavro

    from kqueue.spark.value_formats.avro import parse_schema

    written = parse_schema(schema, to_read=False).schema
    name = written.get("name", "") if isinstance(written, dict) else ""

    def decode(data: bytes) -> Any:
        file = io.BytesIO(data)
        try:
            value = plain(fastavro.schemaless_reader(file, written, None))
        except Exception as error:  # whatever the bytes make fastavro raise
            raise ValueError(
                f"not Avro of {name or 'its schema'}: {shortened(error) or type(error).__name__}"
            ) from None
        if file.tell() != len(data):
            raise ValueError(f"not Avro of {name or 'its schema'}: {len(data) - file.tell()} bytes are left over")
        return value

    return decode, f"Avro {name}".strip()


def _protobuf_decoder(descriptor: Any) -> tuple[Decode, str]:
    from google.protobuf import json_format, message_factory

    message_class = message_factory.GetMessageClass(descriptor)

    def decode(data: bytes) -> Any:
        try:
            message = message_class.FromString(data)
            return parse_json(json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None))
        except Exception as error:  # whatever the bytes make Protobuf raise
            reason = shortened(error) or type(error).__name__
            raise ValueError(f"not a {descriptor.full_name}: {reason}") from None

    return decode, f"Protobuf {descriptor.full_name}"
