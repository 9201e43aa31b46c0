from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.spark.errors import SchemaRefused
from kqueue.spark.value_formats.contract import SchemaText, ValueSettings
from kqueue.spark.value_formats.opening import find_schema
from kqueue.spark.value_formats.protobuf_files import from_set, messages_of, serialized
from kqueue.tests.tables import for_each

ITEM = 'syntax = "proto3"; message Item { string sku = 1; }'
ORDER = 'syntax = "proto3"; import "shop/item.proto"; message Order { Item item = 1; }'
TYPE = "struct<item: struct<sku: string>>"


def test_files_import_others_of_their_folder_and_descriptor_sets_have_them(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "item.proto").write_text(ITEM)
    order, made = tmp_path / "order.proto", tmp_path / "order.desc"
    order.write_text(ORDER)
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{tmp_path}", "--include_imports"]
    subprocess.run([*protoc, f"--descriptor_set_out={made}", "order.proto"], check=True)
    for file in (order, made):
        schema = find_schema(ValueSettings("protobuf", str(file)))
        assert str(schema.reader().type) == TYPE
    assert str(find_schema(ValueSettings("protobuf", ITEM)).reader().type) == "struct<sku: string>"


def test_references_are_files_to_import() -> None:
    schema = serialized(SchemaText(ORDER, (("shop/item.proto", ITEM),)))
    assert serialized(schema) is schema
    file, _ = messages_of(schema)
    assert list(file.message_types_by_name) == ["Order"]


@for_each(
    "schema, words",
    [
        (SchemaText(ORDER, (("../item.proto", ITEM),)), "no path of an import"),
        (SchemaText(ORDER, (("/tmp/item.proto", ITEM),)), "no path of an import"),
        (SchemaText(ORDER, (("shop/item.proto", ""),)), "partly"),
    ],
)
def test_references_with_unsafe_paths_or_without_text_are_refused(schema: SchemaText, words: str) -> None:
    with pytest.raises(SchemaRefused, match=words):
        serialized(schema)


def test_malformed_descriptor_set_is_refused() -> None:
    with pytest.raises(SchemaRefused, match="neither .proto text nor a descriptor set"):
        from_set(b"\xff\xff")
    with pytest.raises(SchemaRefused, match="has no files"):
        from_set(b"")
    with pytest.raises(SchemaRefused, match="can't be used"):
        messages_of(SchemaText(base64.b64encode(b"\xff\xff").decode()))
    whole = serialized(SchemaText(ORDER, (("shop/item.proto", ITEM),)))
    with pytest.raises(SchemaRefused, match="imports 'shop/item.proto', which is not there"):
        messages_of(SchemaText(whole.text))
    with pytest.raises(SchemaRefused, match="can't be used"):
        messages_of(SchemaText(whole.text, (("shop/item.proto", base64.b64encode(b"").decode()),)))
