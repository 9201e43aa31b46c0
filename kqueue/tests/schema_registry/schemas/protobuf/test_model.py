from __future__ import annotations

from kqueue.schema_registry.schemas.protobuf.model import (
    ProtoConstant,
    ProtoField,
    ProtoFile,
    ProtoGroup,
    ProtoMessage,
    ProtoOneof,
    ProtoOption,
)


def test_map_has_two_types_and_other_fields_none() -> None:
    assert ProtoField("a", 1, "map<string, .p.M>").map_types == ("string", ".p.M")
    assert ProtoField("a", 1, "mapped").map_types is None


def test_option_in_parentheses_is_a_custom_one() -> None:
    value = ProtoConstant("number", "1")
    assert ProtoOption("(a).b", value).is_custom
    assert not ProtoOption("deprecated", value).is_custom


def test_members_are_fields_and_groups() -> None:
    field, group = ProtoField("a", 1, "int32"), ProtoGroup(2, ProtoMessage("G"))
    assert ProtoMessage("M", fields=(field,), groups=(group,)).members == (field, group)
    assert ProtoOneof("o", fields=(field,), groups=(group,)).members == (field, group)


def test_edition_is_a_year() -> None:
    assert ProtoFile(syntax="2023").is_edition
    assert not ProtoFile(syntax="proto3").is_edition
    assert not ProtoFile().is_edition
