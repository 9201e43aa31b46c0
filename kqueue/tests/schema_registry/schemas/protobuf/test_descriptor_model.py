from __future__ import annotations

import base64

import pytest

from kqueue.schema_registry.schemas import InvalidSchema, schema_type
from kqueue.schema_registry.schemas.protobuf.descriptor_model import file_model

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
PROTOBUF = schema_type("PROTOBUF")


PROTO3 = """
syntax = "proto3"; package p;
message M {
  optional int32 a = 1; string b = 2 [json_name = "x"]; map<string, M> c = 3;
  oneof o { M d = 4; E e = 5; }
  repeated double f = 6 [packed = false]; reserved 10 to 12; reserved "z";
}
enum E { option allow_alias = true; A = 0; B = 0 [deprecated = true]; reserved 5 to 7; }
service S { rpc R (M) returns (stream M) { option deprecated = true; } }
"""
PROTO2 = r"""
syntax = "proto2";
message M {
  required int32 a = 1 [default = 5]; optional string b = 2 [default = "\"q\""];
  optional bytes c = 3 [default = "\xff\n"]; optional E d = 4 [default = B]; optional float f = 5 [default = inf];
  optional group G = 6 { optional int32 x = 1; }
  extensions 100 to max;
}
enum E { A = 0; B = 1; }
extend M { repeated int32 ext = 100; }
"""
EDITION = """
edition = "2023"; option features.field_presence = IMPLICIT;
message M { int32 a = 1; repeated string b = 2; }
"""
IMPORTS = """
syntax = "proto3"; import public "google/protobuf/any.proto"; import "google/protobuf/empty.proto";
message M { google.protobuf.Any a = 1; google.protobuf.Empty b = 2; message N { M m = 1; } }
"""


@pytest.mark.parametrize("text", [PROTO3, PROTO2, EDITION, IMPORTS])
def test_file_is_the_same_after_it_was_a_descriptor(text: str) -> None:
    schema = PROTOBUF.parse(text, [])
    again = PROTOBUF.parse(schema.formatted("serialized"), [])
    assert again.normalized() == schema.normalized()
    assert again.incompatibilities(schema) == schema.incompatibilities(again) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("syntax: 'editions' edition: EDITION_1_TEST_ONLY", "edition that is not known"),
        ("public_dependency: 3", "public import"),
        ("message_type { name: 'M' field { name: 'a' number: 1 } }", "without a type"),
        (
            "message_type { name: 'M' field { name: 'a' number: 1 type: TYPE_GROUP type_name: 'X' } }",
            "without its message",
        ),
    ],
)
def test_descriptor_that_contradicts_itself_is_refused(text: str, message: str) -> None:
    text_format = pytest.importorskip("google.protobuf.text_format")
    descriptor = text_format.Parse(text, descriptor_pb2.FileDescriptorProto())
    with pytest.raises(InvalidSchema, match=message):
        file_model(descriptor)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\x0f", bytes(300)])
def test_base64_of_no_descriptor_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidSchema):
        PROTOBUF.parse(base64.b64encode(data).decode(), [])
