"""Pairs of bodies of .proto files, and which of them reads what the other one wrote."""

from __future__ import annotations

from typing import NamedTuple


class ProtoCase(NamedTuple):
    """`backward`: new reads old; `forward`: old reads new.

    `kinds`: the incompatible differences of new as the reader, with their paths.
    """

    about: str
    old: str
    new: str
    backward: bool
    forward: bool
    kinds: tuple[str, ...] = ()
    syntax: str = "proto3"


def m(fields: str) -> str:
    return f"message M {{ {fields} }}"


N = " message N { int32 n = 1; }"
N_STRING = " message N { string n = 1; }"
E = " enum E { ZERO = 0; ONE = 1; }"

FIELDS = (
    ProtoCase("the same", m("string a = 1;"), m("string a = 1;"), True, True),
    ProtoCase("a field is added or removed", m("string a = 1;"), m("string a = 1; string b = 2;"), True, True),
    ProtoCase("a field is renamed", m("string a = 1;"), m("string b = 1;"), True, True),
    ProtoCase("a field gets another number", m("string a = 1;"), m("string a = 2;"), True, True),
    ProtoCase("fields in another order", m("string a = 1; int32 b = 2;"), m("int32 b = 2; string a = 1;"), True, True),
    ProtoCase("int32 to int64", m("int32 a = 1;"), m("int64 a = 1;"), True, True),
    ProtoCase("uint32 to bool", m("uint32 a = 1;"), m("bool a = 1;"), True, True),
    ProtoCase("sint32 to sint64", m("sint32 a = 1;"), m("sint64 a = 1;"), True, True),
    ProtoCase("fixed32 to sfixed32", m("fixed32 a = 1;"), m("sfixed32 a = 1;"), True, True),
    ProtoCase("fixed64 to sfixed64", m("fixed64 a = 1;"), m("sfixed64 a = 1;"), True, True),
    ProtoCase("string to bytes", m("string a = 1;"), m("bytes a = 1;"), True, True),
    ProtoCase("int32 to an enum", m("int32 a = 1;"), m("E a = 1;") + E, True, True),
    ProtoCase(
        "int32 to sint32", m("int32 a = 1;"), m("sint32 a = 1;"), False, False, ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
    ),
    ProtoCase(
        "int32 to fixed32", m("int32 a = 1;"), m("fixed32 a = 1;"), False, False, ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
    ),
    ProtoCase(
        "fixed32 to fixed64",
        m("fixed32 a = 1;"),
        m("fixed64 a = 1;"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/1",),
    ),
    ProtoCase(
        "float to double", m("float a = 1;"), m("double a = 1;"), False, False, ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
    ),
    ProtoCase(
        "float to fixed32", m("float a = 1;"), m("fixed32 a = 1;"), False, False, ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
    ),
    ProtoCase(
        "int32 to string", m("int32 a = 1;"), m("string a = 1;"), False, False, ("FIELD_SCALAR_KIND_CHANGED #/M/1",)
    ),
    ProtoCase(
        "a scalar becomes a message",
        m("bytes a = 1;") + N,
        m("N a = 1;") + N,
        False,
        False,
        ("FIELD_KIND_CHANGED #/M/1",),
    ),
    ProtoCase(
        "a scalar becomes a map",
        m("bytes a = 1;"),
        m("map<string, int32> a = 1;"),
        False,
        False,
        ("FIELD_KIND_CHANGED #/M/1",),
    ),
    ProtoCase(
        "the values of a map change",
        m("map<string, int32> a = 1;"),
        m("map<string, string> a = 1;"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/1",),
    ),
    ProtoCase(
        "the keys of a map change",
        m("map<int32, int32> a = 1;"),
        m("map<string, int32> a = 1;"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/1",),
    ),
    ProtoCase(
        "the values of a map are widened", m("map<string, int32> a = 1;"), m("map<string, int64> a = 1;"), True, True
    ),
    ProtoCase("a string is repeated", m("optional string a = 1;"), m("repeated string a = 1;"), True, True),
    ProtoCase(
        "a number is repeated",
        m("optional int32 a = 1;"),
        m("repeated int32 a = 1;"),
        False,
        False,
        ("FIELD_NUMERIC_LABEL_CHANGED #/M/1",),
    ),
    ProtoCase("a message is repeated", m("optional N a = 1;") + N, m("repeated N a = 1;") + N, True, True),
    ProtoCase("a field without a label becomes optional", m("int32 a = 1;"), m("optional int32 a = 1;"), True, True),
    ProtoCase("options change", m("int32 a = 1;"), m("int32 a = 1 [deprecated = true];"), True, True),
)

ONEOFS = (
    ProtoCase(
        "a field moves to a new oneof",
        m("string a = 1; int32 b = 2;"),
        m("string a = 1; oneof o { int32 b = 2; int32 c = 3; }"),
        True,
        True,
    ),
    ProtoCase(
        "two fields move to a oneof",
        m("string a = 1; int32 b = 2;"),
        m("oneof o { string a = 1; int32 b = 2; }"),
        False,
        True,
        ("MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o",),
    ),
    ProtoCase(
        "a field moves to an old oneof",
        m("string a = 1; oneof o { int32 b = 2; }"),
        m("oneof o { string a = 1; int32 b = 2; }"),
        False,
        True,
        ("FIELD_MOVED_TO_EXISTING_ONEOF #/M/o",),
    ),
    ProtoCase(
        "a field is added to a oneof",
        m("oneof o { int32 b = 2; }"),
        m("oneof o { int32 b = 2; int32 c = 3; }"),
        True,
        False,
    ),
    ProtoCase(
        "a field is removed from a oneof",
        m("oneof o { int32 b = 2; int32 c = 3; }"),
        m("oneof o { int32 b = 2; }"),
        False,
        True,
        ("ONEOF_FIELD_REMOVED #/M/o/3",),
    ),
    ProtoCase("a oneof is removed", m("oneof o { int32 b = 2; int32 c = 3; }"), m("string z = 9;"), True, True),
    ProtoCase(
        "a oneof is renamed",
        m("oneof o { int32 b = 2; int32 c = 3; }"),
        m("oneof p { int32 b = 2; int32 c = 3; }"),
        True,
        True,
    ),
    ProtoCase(
        "a type changes as its oneof is renamed",
        m("oneof o { int32 b = 2; }"),
        m("oneof p { string b = 2; }"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/2",),
    ),
    ProtoCase(
        "a type changes in a oneof",
        m("oneof o { int32 b = 2; }"),
        m("oneof o { string b = 2; }"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/o/2",),
    ),
)

TYPES = (
    ProtoCase("a message is added", m("int32 a = 1;"), m("int32 a = 1;") + N, True, False),
    ProtoCase("a message is removed", m("int32 a = 1;") + N, m("int32 a = 1;"), False, True, ("MESSAGE_REMOVED #/N",)),
    ProtoCase("messages in another order", m("int32 a = 1;") + N, N + m("int32 a = 1;"), True, True),
    ProtoCase(
        "a nested message is removed",
        m("int32 a = 1; message N {}"),
        m("int32 a = 1;"),
        False,
        True,
        ("MESSAGE_REMOVED #/M/N",),
    ),
    ProtoCase(
        "a field has another message",
        m("N a = 1;") + N + " message O { int32 n = 1; }",
        m("O a = 1;") + N + " message O { int32 n = 1; }",
        False,
        False,
        ("FIELD_NAMED_TYPE_CHANGED #/M/1",),
    ),
    ProtoCase(
        "the message of a field changes",
        m("N a = 1;") + N,
        m("N a = 1;") + N_STRING,
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/N/1", "FIELD_NAMED_TYPE_CHANGED #/M/1"),
    ),
    ProtoCase(
        "a message is named in full",
        "package p; " + m("N a = 1;") + N,
        "package p; " + m(".p.N a = 1;") + N,
        True,
        True,
    ),
    ProtoCase("another package", "package p; " + m("N a = 1;") + N, "package q; " + m("N a = 1;") + N, True, True),
    ProtoCase(
        "an inner type hides an outer one",
        m("N a = 1;") + N,
        m("N a = 1; message N { int32 n = 1; }") + N,
        False,
        False,
        ("FIELD_NAMED_TYPE_CHANGED #/M/1",),
    ),
    ProtoCase("a recursive message", m("M a = 1; int32 b = 2;"), m("M a = 1; int64 b = 2;"), True, True),
    ProtoCase(
        "a recursive message changes",
        m("M a = 1; int32 b = 2;"),
        m("M a = 1; string b = 2;"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/2",),
    ),
    ProtoCase(
        "values of an enum change", m("E a = 1;") + E, m("E a = 1;") + " enum E { NONE = 0; TWO = 2; }", True, True
    ),
    ProtoCase("an enum is removed", m("int32 a = 1;") + E, m("int32 a = 1;"), True, True),
    ProtoCase(
        "an enum becomes a message of its name",
        m("E a = 1;") + E,
        m("E a = 1;") + " message E {}",
        False,
        False,
        ("FIELD_KIND_CHANGED #/M/1",),
    ),
    ProtoCase(
        "a service is added",
        m("int32 a = 1;"),
        m("int32 a = 1;") + " service S { rpc Do (M) returns (M); }",
        True,
        True,
    ),
    ProtoCase(
        "a well-known type",
        'import "google/protobuf/timestamp.proto"; ' + m("google.protobuf.Timestamp a = 1;"),
        'import "google/protobuf/duration.proto"; ' + m("google.protobuf.Duration a = 1;"),
        False,
        False,
        ("FIELD_NAMED_TYPE_CHANGED #/M/1",),
    ),
)

PROTO2 = (
    ProtoCase(
        "a required field is added",
        m("optional int32 a = 1;"),
        m("optional int32 a = 1; required int32 b = 2;"),
        False,
        False,
        ("REQUIRED_FIELD_ADDED #/M/2",),
        "proto2",
    ),
    ProtoCase(
        "a required string becomes optional",
        m("required string a = 1;"),
        m("optional string a = 1;"),
        True,
        True,
        (),
        "proto2",
    ),
    ProtoCase(
        "a required number becomes optional",
        m("required int32 a = 1;"),
        m("optional int32 a = 1;"),
        False,
        False,
        ("FIELD_NUMERIC_LABEL_CHANGED #/M/1",),
        "proto2",
    ),
    ProtoCase(
        "a group is the same",
        m("optional group G = 1 { optional int32 a = 1; }"),
        m("optional group G = 1 { optional int64 a = 1; }"),
        True,
        True,
        (),
        "proto2",
    ),
    ProtoCase(
        "a group changes",
        m("optional group G = 1 { optional int32 a = 1; }"),
        m("optional group G = 1 { optional string a = 1; }"),
        False,
        False,
        ("FIELD_SCALAR_KIND_CHANGED #/M/1/1", "FIELD_NAMED_TYPE_CHANGED #/M/1"),
        "proto2",
    ),
    ProtoCase(
        "a group becomes a message",
        m("optional group G = 1 { optional int32 a = 1; }"),
        m("optional N g = 1; message N {}"),
        False,
        False,
        ("FIELD_KIND_CHANGED #/M/1",),
        "proto2",
    ),
    ProtoCase(
        "a default changes",
        m("optional int32 a = 1 [default = 1];"),
        m("optional int32 a = 1 [default = 2];"),
        True,
        True,
        (),
        "proto2",
    ),
    ProtoCase(
        "extensions are added",
        m("optional int32 a = 1;"),
        m("optional int32 a = 1; extensions 100 to 199;") + " extend M { optional int32 b = 100; }",
        True,
        True,
        (),
        "proto2",
    ),
)
CASES = (*FIELDS, *ONEOFS, *TYPES, *PROTO2)
