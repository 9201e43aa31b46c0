"""Decodes columns of values: takes frames off, finds writers' schemas, and keeps the order."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.contract import (
    Decoded,
    Decoder,
    FormatName,
    ReaderFormat,
    SchemaText,
)
from kqueue.spark.value_formats.framing import FrameError, read_frame
from kqueue.spark.value_formats.registry import Registry

Writer = tuple[int, tuple[int, ...]]
UNKNOWN_MAX = 1_000
"""Schemas of no use that a task asks the registry for: wrong values may name any number of them."""


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """The reader's schema, as found on the driver; it can be pickled.

    Attributes:
        message: of Protobuf, its full name; None: the first.
        registry: None: values have no frames, and are written with this schema.
        permissive: wrong values become null.
    """

    format: FormatName
    schema: SchemaText
    message: str | None
    registry: RegistrySettings | None
    permissive: bool

    def reader(self) -> ReaderFormat:
        """Return its columns. Raises: SchemaRefused, ExtraNeeded."""
        try:
            return self._reader()
        except ImportError as error:
            raise ExtraNeeded(
                f"valueFormat={self.format} needs the package {error.name}: {install_hint('schemas')}"
            ) from None

    def _reader(self) -> ReaderFormat:
        if self.format == "avro":
            from kqueue.spark.value_formats.avro import AvroFormat

            return AvroFormat(self.schema)
        if self.format == "protobuf":
            from kqueue.spark.value_formats.protobuf import ProtobufFormat

            return ProtobufFormat(self.schema, self.message)
        from kqueue.spark.value_formats.json_schema import JsonFormat

        return JsonFormat(self.schema)


class ValueDecoder:
    """Decodes values in a task. Thread: one at a time.

    Schemas of writers are asked for once. Raises: SchemaRefused, ExtraNeeded.
    """

    def __init__(self, schema: ValueSchema) -> None:
        self._reader = schema.reader()
        self._registry = None if schema.registry is None else Registry(schema.registry, schema.format)
        self._unknown = 0
        self._with_indexes = schema.format == "protobuf"
        self._decoders: dict[Writer | None, Decoder | str] = {}
        self._texts: dict[int, SchemaText | str] = {}

    @property
    def type(self) -> pa.StructType:
        """The type of decoded values."""
        return self._reader.type

    def decode(self, values: pa.Array) -> Decoded:
        """Return binary values as columns; null stays null.

        Raises: RegistryFailed.
        """
        by_writer: dict[Writer | None, tuple[list[int], list[bytes]]] = {}
        errors: dict[int, str] = {}
        framed = self._registry is not None
        for index, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            writer = None
            if framed:
                try:
                    frame = read_frame(value, with_indexes=self._with_indexes)
                except FrameError as error:
                    errors[index] = str(error)
                    continue
                writer, value = (frame.schema_id, frame.indexes), value[frame.start :]
            rows, parts = by_writer.setdefault(writer, ([], []))
            rows.append(index)
            parts.append(value)
        return self._joined(len(values), by_writer, errors)

    def _joined(
        self, count: int, by_writer: dict[Writer | None, tuple[list[int], list[bytes]]], errors: dict[int, str]
    ) -> Decoded:
        """Decode the values of each writer, and put them where they were."""
        places: list[int | None] = [None] * count
        arrays: list[pa.Array] = []
        start = 0
        for writer, (rows, parts) in by_writer.items():
            decoder = self._decoder(writer)
            if isinstance(decoder, str):
                errors.update(dict.fromkeys(rows, decoder))
                continue
            decoded = decoder.decode(parts)
            errors.update((rows[index], reason) for index, reason in decoded.errors.items())
            arrays.append(decoded.values)
            for place, row in enumerate(rows, start):
                places[row] = place
            start += len(rows)
        if not arrays:
            return Decoded(pa.nulls(count, self._reader.type), errors)
        joined = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
        if len(arrays) == 1 and start == count:
            return Decoded(joined, errors)
        return Decoded(joined.take(pa.array(places, pa.int64())), errors)

    def _decoder(self, writer: Writer | None) -> Decoder | str:
        """Return the decoder of a writer's schema; text: why there is none."""
        if writer in self._decoders:
            return self._decoders[writer]
        if self._registry is None or writer is None:
            decoder: Decoder | str = self._reader.decoder(None, ())
        elif self._unknown >= UNKNOWN_MAX:
            return f"its schema was not looked for: {UNKNOWN_MAX:,} others before it can't be used"
        else:
            try:
                decoder = self._reader.decoder(self._written(self._registry, writer[0]), writer[1])
            except SchemaRefused as error:
                decoder = str(error)
                self._unknown += 1
        self._decoders[writer] = decoder
        return decoder

    def _written(self, registry: Registry, schema_id: int) -> SchemaText:
        """Return a writer's schema. With messages in it, each of which has a decoder, it is kept.

        Raises: SchemaRefused, RegistryFailed.
        """
        text = self._texts.get(schema_id)
        if text is None:
            try:
                text = registry.by_id(schema_id)
            except SchemaRefused as error:
                text = str(error)
            if self._with_indexes:
                self._texts[schema_id] = text
        if isinstance(text, str):
            raise SchemaRefused(text)
        return text
