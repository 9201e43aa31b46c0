from __future__ import annotations

import json
import pickle

import pyarrow as pa

from kqueue.spark.value_formats.contract import SchemaText
from kqueue.spark.value_formats.decoder import ValueSchema
from kqueue.spark.value_formats.frames import DecodeFrame

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def test_decoded_frame_gains_value_and_error_columns() -> None:
    decode = pickle.loads(pickle.dumps(DecodeFrame(ValueSchema("avro", SchemaText(SCHEMA), None, None, True))))
    batch = pa.record_batch({"offset": [5, 6, 7], "value": pa.array([b"\2", None, b""], pa.binary())})
    (table,) = decode([batch])
    assert table.select(["_value", "_error"]).schema == decode.columns
    assert table.column("offset").to_pylist() == [5, 6, 7]
    assert table.column("_value").to_pylist() == [{"id": 1}, None, None]
    assert table.column("_error").is_valid().to_pylist() == [False, False, True]
