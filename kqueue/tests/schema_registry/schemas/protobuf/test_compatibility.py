from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import ResolvedReference, check_compatibility, limits, schema_type
from kqueue.tests.schema_registry.schemas.protobuf.cases import CASES, ProtoCase

pytest.importorskip("google.protobuf")
PROTOBUF = schema_type("PROTOBUF")


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_schemas_of_the_table_are_compatible_as_it_says(case: ProtoCase) -> None:
    old, new = (PROTOBUF.parse(f'syntax = "{case.syntax}"; {one}', []) for one in (case.old, case.new))
    verdicts = {level: not check_compatibility(level, new, [old]) for level in ("NONE", "BACKWARD", "FORWARD", "FULL")}
    expected = {
        "NONE": True, "BACKWARD": case.backward, "FORWARD": case.forward, "FULL": case.backward and case.forward,
    }  # fmt: skip
    assert verdicts == expected
    found = new.incompatibilities(old)
    assert tuple(f"{one.kind} {one.path}" for one in found) == case.kinds
    assert all(one.path in one.text("new", "old") for one in found)


def test_table_has_enough_cases() -> None:
    assert len(CASES) >= 40


def importing(package: str, type: str) -> object:
    other = f'syntax = "proto3"; package {package}; message Outer {{ message Home {{ {type} id = 1; }} }}'
    text = f'syntax = "proto3"; import "other.proto"; message M {{ {package}.Outer.Home a = 1; }}'
    return PROTOBUF.parse(text, [ResolvedReference("other.proto", "s", 1, other)])


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (("p", "int32"), ("p", "int64"), []),
        (("p", "int32"), ("q", "int32"), []),
        (
            ("p", "int32"),
            ("q", "string"),
            ["FIELD_SCALAR_KIND_CHANGED #/Outer/Home/1", "FIELD_NAMED_TYPE_CHANGED #/M/1"],
        ),
    ],
)
def test_types_of_references_are_compared_by_their_names_in_the_package(
    old: tuple[str, str], new: tuple[str, str], kinds: list[str]
) -> None:
    before, after = importing(*old), importing(*new)
    found = after.incompatibilities(before)  # type: ignore[attr-defined]
    assert [f"{one.kind} {one.path}" for one in found] == kinds


def test_messages_in_a_long_chain_end_as_incompatible() -> None:
    body = "".join(f"message M{number} {{ M{number + 1} a = 1; }}" for number in range(1_000))
    text = f'syntax = "proto3"; {body} message M1000 {{ int32 a = 1; }}'
    (reason,) = PROTOBUF.parse(text, []).incompatibilities(PROTOBUF.parse(text, []))
    assert reason.kind == "TOO_LARGE"


def test_messages_that_have_each_other_are_compared_quickly() -> None:
    fields = "".join(f"M{number} f{number} = {number + 1};" for number in range(60))
    text = 'syntax = "proto3";' + "".join(f"message M{number} {{ {fields} }}" for number in range(60))
    old, new = PROTOBUF.parse(text, []), PROTOBUF.parse(text + "message More { int32 a = 1; }", [])
    assert new.incompatibilities(old) == []
    assert [one.kind for one in old.incompatibilities(new)] == ["MESSAGE_REMOVED"]


def test_too_many_fields_end_as_incompatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPARISON_STEPS_MAX", 100)
    text = 'syntax = "proto3"; message M {' + "".join(f"int32 f{n} = {n};" for n in range(1, 900)) + "}"
    (reason,) = PROTOBUF.parse(text, []).incompatibilities(PROTOBUF.parse(text, []))
    assert reason.kind == "TOO_LARGE"
