from __future__ import annotations

import dataclasses

from hypothesis import HealthCheck, Phase, given, settings

from kqueue.schema_registry.schemas.protobuf.model import ProtoFile
from kqueue.schema_registry.schemas.protobuf.parser import parse_file
from kqueue.schema_registry.schemas.protobuf.printer import print_file
from kqueue.tests.schema_registry.schemas.protobuf.models import FILES

# Files are large, and making them small takes minutes: a failing one is shown as it is.
BRIEF = settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@given(FILES)
@BRIEF
def test_printed_file_is_parsed_to_the_same_model(file: ProtoFile) -> None:
    parsed = parse_file(print_file(file))
    assert dataclasses.asdict(parsed) == dataclasses.asdict(file)


@given(FILES)
@BRIEF
def test_normal_form_is_its_own_normal_form(file: ProtoFile) -> None:
    once = print_file(file, resolve=lambda name, scope: name)
    assert print_file(parse_file(once), resolve=lambda name, scope: name) == once


def test_file_is_printed_in_sections() -> None:
    text = """// comment
    syntax = "proto3"; package p;
    import 'b'; import public "a";
    option java_package = "x";
    enum E { A = 0; B = 1 [deprecated = true]; reserved 5 to max; }
    message M { oneof o { string a = 1; } int32 b = 2 [deprecated = true, json_name = "B", packed = false];
                message N {} reserved 9; option deprecated = true; }
    """
    assert print_file(parse_file(text)) == (
        'syntax = "proto3";\npackage p;\n\nimport "b";\nimport public "a";\n\noption java_package = "x";\n\n'
        "message M {\n  reserved 9;\n\n  option deprecated = true;\n\n"
        '  int32 b = 2 [\n    deprecated = true,\n    packed = false,\n    json_name = "B"\n  ];\n\n'
        "  oneof o {\n    string a = 1;\n  }\n\n  message N {}\n}\n"
        "enum E {\n  reserved 5 to max;\n  A = 0;\n  B = 1 [deprecated = true];\n}\n"
    )


def test_normal_form_sorts_what_has_no_order() -> None:
    one = (
        'syntax = "proto2"; import "b"; import "a"; import "b";'
        " message M { optional int32 b = 2; optional int32 a = 1; reserved 9, 5; }"
    )
    other = 'import "a"; import "b"; message M { reserved 5; reserved 9; optional int32 a = 1; optional int32 b = 2; }'
    forms = [print_file(parse_file(text), resolve=lambda name, scope: name) for text in (one, other)]
    assert forms[0] == forms[1]
    assert print_file(parse_file("message A {} message B {}"), resolve=lambda name, scope: name) != print_file(
        parse_file("message B {} message A {}"), resolve=lambda name, scope: name
    )


def test_extensions_can_be_left_out() -> None:
    text = (
        "message M { optional int32 a = 1 [(x) = 1, (confluent.field_meta) = {}, deprecated = true]; extensions 5; }"
        " extend M { optional int32 b = 5; }"
    )
    printed = print_file(parse_file(text), with_extensions=False)
    assert "extend" not in printed
    assert "(x)" not in printed
    assert "(confluent.field_meta)" in printed
    assert "deprecated" in printed
