from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.limits import DEPTH_MAX
from kqueue.schema_registry.schemas.protobuf.model import ProtoConstant, ProtoField, ProtoOption, ProtoRanges
from kqueue.schema_registry.schemas.protobuf.parser import parse_file


def test_declarations_are_collected_by_their_kind() -> None:
    file = parse_file(
        'syntax = "proto2"; package a.b; import "x"; import public "y"; import weak "z"; option o = 1;;'
        "enum E { A = 0; } message M { enum F { B = 0; } message N {} extend M { optional int32 x = 9; } }"
        "extend M { repeated string y = 10; } service S { rpc R (M) returns (stream .a.b.M);"
        " rpc Q (stream M) returns (M) {} }"
    )
    assert (file.syntax, file.package, file.imports, file.public_imports) == ("proto2", "a.b", ("x", "z"), ("y",))
    (message,) = file.messages
    assert (message.messages[0].name, message.enums[0].name) == ("N", "F")
    assert file.extends[0].fields == (ProtoField("y", 10, "string", "repeated"),)
    first, second = file.services[0].rpcs
    assert (first.is_request_stream, first.is_response_stream, first.response) == (False, True, ".a.b.M")
    assert (second.is_request_stream, second.is_response_stream) == (True, False)


def test_keywords_are_names_where_no_statement_is_possible() -> None:
    (message,) = parse_file(
        "message M { optional string message = 1; option.T a = 2; group g = 4; int32 oneof = 5;"
        " reserved reserved = 6; }"
    ).messages
    assert [(one.label, one.type, one.name) for one in message.fields] == [
        ("optional", "string", "message"),
        ("", "option.T", "a"),
        ("", "group", "g"),
        ("", "int32", "oneof"),
        ("", "reserved", "reserved"),
    ]


def test_numbers_are_decimal_octal_and_hexadecimal() -> None:
    (message,) = parse_file("message M { int32 a = 0x10; int32 b = 010; reserved 1 to 3, 5, 100 to max; }").messages
    assert [one.number for one in message.fields] == [16, 8]
    assert message.reserved == (ProtoRanges(((1, 3), (5, 5), (100, 536870911))),)


def test_options_keep_their_names_and_values() -> None:
    (option, other) = parse_file('option (a.b).c = "x" "y"; option features.z = -inf;').options
    assert option == ProtoOption("(a.b).c", ProtoConstant("string", "xy"))
    assert other == ProtoOption("features.z", ProtoConstant("number", "-inf"))


def test_names_are_reserved_without_quotes_in_editions() -> None:
    (message,) = parse_file('edition = "2023"; message M { reserved a, b; int32 c = 1; }').messages
    assert message.reserved[0].names == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('syntax = "proto4";', 'line 1: expected "proto2" or "proto3", found \'proto4\''),
        ('edition = "1999";', 'expected "2023"'),
        ("package a; package b;", "one package only"),
        ("message", "expected a declaration"),
        ("message M {", "found the end"),
        ("message M { int32 a = 1 }", "found '}'"),
        ("message M { int32 a; }", "expected ="),
        ("message M { int32 a = 0; }", "a number from 1 to 536870911"),
        ("message M { int32 a = 99999999999999; }", "a number from 1"),
        ("message M { int32 a = 08; }", "a whole number"),
        ("message M { map<float, int32> a = 1; }", "the type of a map's keys"),
        ("message M { repeated map<string, int32> a = 1; }", "no label before a map"),
        ("message M { oneof o { repeated int32 a = 1; } }", "expected ="),
        ("enum E { A; }", "expected ="),
        ("enum E { A = 3000000000; }", "a number from"),
        ("service S { message M {} }", "expected rpc"),
        ("option a = ;", "expected a value"),
        ("option a = -x;", "expected a number"),
        ("option a = { b 1 };", "expected :"),
        ('import "a"', "expected ;"),
        ("extend", "expected a declaration"),
        ("message M { optional", "found the end"),
        ("message M { reserved", "found the end"),
        ("message M { group", "found the end"),
    ],
)
def test_wrong_text_is_refused_with_the_line_and_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        parse_file(text)


@pytest.mark.parametrize(
    "text",
    [
        "message M { " * (DEPTH_MAX + 1) + "}" * (DEPTH_MAX + 1),
        "option a = " + "{ b: " * (DEPTH_MAX + 1) + "1" + "}" * (DEPTH_MAX + 1) + ";",
        "option a = " + "[" * 50_000 + ";",
        "message M { " * 5_000,
    ],
)
def test_nesting_is_bounded(text: str) -> None:
    with pytest.raises(InvalidSchema, match="nested"):
        parse_file(text)
