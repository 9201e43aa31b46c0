from __future__ import annotations

import base64

import pytest

from kqueue.schema_registry.schemas import InvalidSchema, ResolvedReference, schema_type
from kqueue.schema_registry.schemas.limits import TEXT_CHARACTERS_MAX

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
PROTOBUF = schema_type("PROTOBUF")
OTHER = ResolvedReference("other.proto", "other", 1, 'syntax = "proto3"; package o; message Other { int32 id = 1; }')


def test_names_of_references_are_resolved_in_the_normal_form() -> None:
    text = 'syntax = "proto3";\npackage p;\n\nimport "other.proto";\n\nmessage M {\n  o.Other a = 1;\n}\n'
    schema = PROTOBUF.parse(text, [OTHER])
    assert schema.text == text
    assert ".o.Other a = 1;" in schema.normalized()
    assert PROTOBUF.parse(schema.normalized(), [OTHER]).normalized() == schema.normalized()
    assert schema.formatted("resolved") == schema.text


def test_serialized_form_is_a_descriptor_with_the_imports_as_dependencies() -> None:
    schema = PROTOBUF.parse('syntax = "proto3"; import "other.proto"; message M { o.Other a = 1; }', [OTHER])
    descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))
    assert list(descriptor.dependency) == ["other.proto"]
    assert descriptor.message_type[0].field[0].type_name == ".o.Other"


def test_custom_options_are_kept_in_the_text() -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; message M { option (confluent.message_meta) = { doc: "d" };'
        ' int32 a = 1 [(confluent.field_meta) = { doc: "x", tags: ["PII"] }]; }'
    )
    schema = PROTOBUF.parse(text, [])
    assert '(confluent.field_meta) = {\n    doc: "x",\n    tags: [\n      "PII"\n    ]\n  }' in schema.text
    assert PROTOBUF.parse(schema.text, []).text == schema.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message", "line 1"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "not valid"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 a = 2; }', "not valid"),
        ('syntax = "proto3"; message M {} message M {}', "not valid"),
        ('syntax = "proto3"; enum E { A = 1; }', "not valid"),
        ('syntax = "proto3"; message M { X a = 1; }', "which is not known"),
        ('import "none.proto";', "not among its references"),
        ("x" * (TEXT_CHARACTERS_MAX + 1), "are allowed"),
        ("{" * 100_000, "line 1"),
    ],
)
def test_text_that_is_no_schema_or_beyond_bounds_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        PROTOBUF.parse(text, [])


def test_stored_schema_with_what_a_compiler_refuses_is_compared_all_the_same() -> None:
    stored = PROTOBUF.parse('syntax = "proto3"; message M { X a = 1; }', [], is_new=False)
    assert stored.incompatibilities(stored) == []
    other = PROTOBUF.parse('syntax = "proto3"; message M { Y a = 1; }', [], is_new=False)
    assert [one.kind for one in other.incompatibilities(stored)] == ["FIELD_NAMED_TYPE_CHANGED"]
