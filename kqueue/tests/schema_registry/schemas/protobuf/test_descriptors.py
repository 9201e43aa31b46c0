from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.protobuf.descriptors import file_descriptor, json_name
from kqueue.schema_registry.schemas.protobuf.parser import parse_file
from kqueue.schema_registry.schemas.protobuf.symbols import SymbolTable

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")


def described(text: str) -> object:
    file = parse_file(text)
    symbols = SymbolTable()
    symbols.add(file)
    return file_descriptor(file, "f.proto", symbols)


def test_optional_field_of_proto3_has_a_oneof_after_the_others() -> None:
    (message,) = described(
        'syntax = "proto3"; message M { optional int32 a = 1; oneof o { int32 b = 2; } }'
    ).message_type  # type: ignore[attr-defined]
    assert [one.name for one in message.oneof_decl] == ["o", "_a"]
    assert [(one.name, one.oneof_index, one.proto3_optional) for one in message.field] == [
        ("a", 1, True),
        ("b", 0, False),
    ]


def test_map_is_a_message_of_its_entries() -> None:
    (message,) = described("message M { map<string, M> a_b = 1; }").message_type  # type: ignore[attr-defined]
    (entry,) = message.nested_type
    assert (entry.name, entry.options.map_entry, entry.field[1].type_name) == ("ABEntry", True, ".M")
    assert message.field[0].type_name == ".M.ABEntry"


def test_options_of_all_declarations_are_set_but_custom_ones() -> None:
    file = described(
        'option java_package = "x"; message M { option deprecated = true; option (x) = 1;'
        " optional int32 a = 1 [default = -3, packed = true]; }"
        " enum E { option allow_alias = true; A = 0 [deprecated = true]; }"
    )
    assert file.options.java_package == "x"  # type: ignore[attr-defined]
    assert file.message_type[0].field[0].default_value == "-3"  # type: ignore[attr-defined]
    assert file.enum_type[0].value[0].options.deprecated  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("message M { X a = 1; }", "the type X in M, which is not known"),
        ("extend X { optional int32 a = 1; }", "extends X"),
        ("message M {} service S { rpc R (M) returns (X); }", "method R of the type X"),
        ("option nonsense = 1;", "invalid option nonsense"),
        ("option java_package = 5;", "invalid option java_package"),
        ("message M { optional int32 a = 1 [default = {}]; }", "no single value"),
        (r"message M { optional string a = 1 [default = '\xff']; }", "no UTF-8"),
    ],
)
def test_what_is_not_known_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        described(text)


def test_names_in_json() -> None:
    assert [json_name(one) for one in ("a_bc", "aBc", "_a", "a__b")] == ["aBc", "aBc", "A", "aB"]
