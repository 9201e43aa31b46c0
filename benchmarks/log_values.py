"""Decoding of values by a schema, as tasks of Spark do it: CPU time of one core, without reading.

Needs kqueue[schemas].
"""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.results import Figure, Row

if TYPE_CHECKING:
    from kqueue.spark.value_formats.contract import Decoder

ROUNDS = 5
AT = datetime(2026, 1, 1, tzinfo=UTC)
NAMED = {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}
TYPES: dict[str, Any] = {
    "number": "long", "shop": ["null", "string"], "at": {"type": "long", "logicalType": "timestamp-millis"},
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "state": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}, "name": "string", "note": "string",
    "price": "double", "paid": "boolean",
}  # fmt: skip
UNION = ["null", "long", "string", NAMED]
NUMBER, TEXT, REAL, BOOLEAN = 3, 9, 1, 8
PROTOBUF = {
    "number": NUMBER, "shop": TEXT, "at": NUMBER, "amount": NUMBER, "state": TEXT, "name": TEXT, "note": TEXT,
    "price": REAL, "paid": BOOLEAN,
}  # fmt: skip
JSON_TYPES = {NUMBER: "integer", TEXT: "string", REAL: "number", BOOLEAN: "boolean"}


def is_measurable() -> bool:
    """Return whether the packages are there."""
    return all(find_spec(name) is not None for name in ("fastavro", "jsonschema_rs", "grpc_tools"))


def values(count: int) -> Row:
    """Decode `count` values in each way, several times."""
    figures = [Figure(_us(decoder, encoded), f"µs, {name}") for name, decoder, encoded in _ways(count)]
    return Row(
        "values by a schema, one record",
        figures,
        "nine fields in about 200 bytes (JSON: 300); CPU time of decoding only, the best round",
    )


def _us(decoder: Decoder, encoded: list[bytes]) -> float:
    rounds_us = []
    for _ in range(ROUNDS):
        began = time.process_time()
        decoded = decoder.decode(encoded)
        rounds_us.append((time.process_time() - began) / len(encoded) * 1e6)
        if decoded.errors or len(decoded.values) != len(encoded):
            raise RuntimeError(f"{len(decoded.errors)} of {len(encoded)} values were wrong")
    return min(rounds_us)


def _row(number: int) -> dict[str, Any]:
    return {
        "number": number, "shop": f"shop {number % 100}", "at": AT + timedelta(seconds=number),
        "amount": Decimal(number % 10_000) / 100, "state": "PAID", "name": f"name of {number} ".ljust(60, "n"),
        "note": f"note of {number} ".ljust(80, "o"), "price": number / 8, "paid": number % 2 == 0,
    }  # fmt: skip


def _ways(count: int) -> Iterator[tuple[str, Decoder, list[bytes]]]:
    from kqueue.spark.value_formats.avro import AvroFormat
    from kqueue.spark.value_formats.contract import SchemaText
    from kqueue.spark.value_formats.json_schema import JsonFormat
    from kqueue.spark.value_formats.protobuf import ProtobufFormat

    own, older = _avro(TYPES), _avro({name: kind for name, kind in TYPES.items() if name != "paid"})
    newest = json.loads(own.text)
    newest["fields"][-1]["default"] = True
    rows = [_row(number) for number in range(count)]
    yield "Avro by the reader's schema", AvroFormat(own).decoder(None), _encoded(own.text, rows)
    reader = AvroFormat(SchemaText(json.dumps(newest)))
    yield "Avro of an older schema", reader.decoder(older), _encoded(older.text, rows)
    several = _avro(TYPES | {"note": UNION})
    notes = [[None, row["number"], row["note"], ("Note", {"text": row["note"]})][row["number"] % 4] for row in rows]
    mixed = [row | {"note": note} for row, note in zip(rows, notes, strict=True)]
    yield "Avro with a union of several types", AvroFormat(several).decoder(None), _encoded(several.text, mixed)
    flat = [row | {"at": int(row["at"].timestamp() * 1000), "amount": int(row["amount"] * 100)} for row in rows]
    message = ProtobufFormat(_protobuf(), None)
    yield "Protobuf", message.decoder(None), [message.message(**row).SerializeToString() for row in flat]
    properties = {name: {"type": JSON_TYPES[kind]} for name, kind in PROTOBUF.items()}
    schema = SchemaText(json.dumps({"type": "object", "properties": properties}))
    yield "JSON Schema", JsonFormat(schema).decoder(None), [json.dumps(row).encode() for row in flat]


def _avro(types: dict[str, Any]) -> Any:
    from kqueue.spark.value_formats.contract import SchemaText

    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    return SchemaText(json.dumps({"type": "record", "name": "Order", "fields": fields}))


def _encoded(schema: str, rows: list[dict[str, Any]]) -> list[bytes]:
    import fastavro

    parsed, encoded = fastavro.parse_schema(json.loads(schema)), []
    for row in rows:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, row)
        encoded.append(file.getvalue())
    return encoded


def _protobuf() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from kqueue.spark.value_formats.contract import SchemaText

    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(PROTOBUF.items(), 1):
        message.field.add(name=name, number=number, label=1, type=kind)
    return SchemaText(base64.b64encode(file.SerializeToString()).decode())
