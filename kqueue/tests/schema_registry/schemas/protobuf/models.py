"""Models of .proto files that Hypothesis makes up: any that can be printed, valid or not."""

from __future__ import annotations

from hypothesis import strategies as st

from kqueue.schema_registry.schemas.protobuf.model import (
    ProtoAggregate,
    ProtoConstant,
    ProtoEnum,
    ProtoEnumValue,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoGroup,
    ProtoMessage,
    ProtoOneof,
    ProtoOption,
    ProtoRanges,
    ProtoRpc,
    ProtoService,
)


def few(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """Of most kinds there is nothing, so that files stay small."""
    return st.one_of(st.just(()), st.just(()), st.lists(strategy, max_size=2).map(tuple))


NAMES = st.sampled_from(["a", "B", "message", "option", "c_d", "oneof1"])
TYPE_NAMES = st.sampled_from(["B", ".p.B", "a.B", "Inner"])
NUMBERS = st.integers(1, 2**29 - 1)
CONSTANTS = st.one_of(
    st.builds(ProtoConstant, st.just("string"), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    st.builds(ProtoConstant, st.just("number"), st.sampled_from(["1", "-2", "0x1F", "1.5", "-inf", "1e9"])),
    st.builds(ProtoConstant, st.just("name"), st.sampled_from(["true", "SPEED", "nan"])),
)
VALUES = st.recursive(
    CONSTANTS,
    lambda inner: st.one_of(
        few(inner),
        st.builds(ProtoAggregate, few(st.tuples(st.sampled_from(["a", "[x.y]", "[t.com/x.y]"]), inner))),
    ),
    max_leaves=4,
)
OPTIONS = few(st.builds(ProtoOption, st.sampled_from(["deprecated", "(x.y)", "(.x).z", "features.q"]), VALUES))
RANGES = st.builds(
    ProtoRanges,
    st.lists(st.tuples(st.integers(1, 9), st.integers(9, 2**29 - 1)), min_size=1, max_size=2).map(tuple),
)
RESERVED_NAMES = st.builds(ProtoRanges, st.just(()), st.lists(NAMES, min_size=1, max_size=2).map(tuple))
FIELD_TYPES = st.sampled_from(["int32", "string", "bytes"]) | TYPE_NAMES
PLAIN_FIELDS = st.builds(ProtoField, NAMES, NUMBERS, FIELD_TYPES, st.just(""), OPTIONS)
FIELDS = st.one_of(
    st.builds(ProtoField, NAMES, NUMBERS, FIELD_TYPES, st.sampled_from(["optional", "repeated"]), OPTIONS),
    PLAIN_FIELDS,
    st.builds(
        ProtoField, NAMES, NUMBERS, st.sampled_from(["map<string, B>", "map<int32, .p.B>"]), st.just(""), OPTIONS
    ),
)
ENUMS = st.builds(
    ProtoEnum,
    NAMES,
    few(st.builds(ProtoEnumValue, NAMES, st.integers(-(2**31), 2**31 - 1), OPTIONS)),
    few(st.builds(ProtoRanges, st.just(((1, 2), (5, 2**31 - 1)))) | RESERVED_NAMES),
    OPTIONS,
)
EXTENDS = st.builds(ProtoExtend, TYPE_NAMES, few(FIELDS))


def message_of(inner: st.SearchStrategy[ProtoMessage]) -> st.SearchStrategy[ProtoMessage]:
    groups = few(
        st.builds(ProtoGroup, NUMBERS, inner.map(capitalized), st.sampled_from(["optional", "repeated"]), OPTIONS)
    )
    oneof_groups = few(st.builds(ProtoGroup, NUMBERS, inner.map(capitalized), st.just(""), OPTIONS))
    return st.builds(
        ProtoMessage,
        NAMES,
        few(FIELDS),
        few(st.builds(ProtoOneof, NAMES, few(PLAIN_FIELDS), oneof_groups, OPTIONS)),
        groups,
        few(inner),
        few(ENUMS),
        few(RANGES | RESERVED_NAMES),
        few(RANGES),
        few(EXTENDS),
        OPTIONS,
    )


def capitalized(message: ProtoMessage) -> ProtoMessage:
    return ProtoMessage("Group", message.fields, reserved=message.reserved)


MESSAGES = message_of(st.builds(ProtoMessage, NAMES, few(FIELDS)))
RPCS = st.builds(ProtoRpc, NAMES, TYPE_NAMES, TYPE_NAMES, st.booleans(), st.booleans(), OPTIONS)
FILES = st.builds(
    ProtoFile,
    st.sampled_from(["", "proto2", "proto3", "2023"]),
    st.sampled_from(["", "p", "p.q"]),
    few(st.sampled_from(["x.proto", "dir/y.proto"])),
    few(st.sampled_from(["z.proto"])),
    OPTIONS,
    few(MESSAGES),
    few(ENUMS),
    few(EXTENDS),
    few(st.builds(ProtoService, NAMES, few(RPCS), OPTIONS)),
)
