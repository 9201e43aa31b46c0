from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.value_formats.contract import SCHEMA_BYTES_MAX, ValueSettings
from kqueue.spark.value_formats.opening import find_schema, schema_text

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def test_schema_is_taken_from_text_or_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(SCHEMA)
    for given in (SCHEMA, str(file)):
        schema = find_schema(ValueSettings("avro", given, permissive=True))
        assert (schema.schema.text, schema.permissive) == (SCHEMA, True)
        assert str(pickle.loads(pickle.dumps(schema)).reader().type) == "struct<id: int64>"
    assert schema_text('syntax = "proto3"; message A {}').startswith("syntax")


def test_unreadable_schema_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    with pytest.raises(OptionError, match="as a file: No such file"):
        schema_text(str(file))
    with pytest.raises(OptionError, match="as a file: Is a directory"):
        schema_text(str(tmp_path))
    file.write_bytes(b"\xff")
    with pytest.raises(OptionError, match="is not UTF-8 at byte 0"):
        schema_text(str(file))
    file.write_bytes(b" " * (SCHEMA_BYTES_MAX + 1))
    with pytest.raises(OptionError, match="more than 1,048,576 bytes"):
        schema_text(str(file))
