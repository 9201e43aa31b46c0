from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.schema_registry.schemas import InvalidSchema, ResolvedReference, check_compatibility, schema_type
from kqueue.schema_registry.schemas.limits import DEPTH_MAX, TEXT_CHARACTERS_MAX
from kqueue.tests.schema_registry.schemas.avro.cases import array, enum, field, fixed, map_of, record, text

pytest.importorskip("fastavro")
AVRO = schema_type("AVRO")


def reference(name: str, document: object, *references: ResolvedReference) -> ResolvedReference:
    return ResolvedReference(name, f"{name}-value", 1, text(document), references)


def record_of(name: str, types: list[object]) -> object:
    return record(*(field(f"f{number}", one) for number, one in enumerate(types)), name=name)


NAMES = st.sampled_from(["R", "S", "n.R", "n.S", "m.T"])
PRIMITIVES = st.sampled_from(["null", "int", "long", "string", "bytes", "boolean"])
DOCUMENTS = st.recursive(
    PRIMITIVES,
    lambda inner: st.one_of(
        inner.map(array),
        inner.map(map_of),
        st.builds(record_of, NAMES, st.lists(inner, max_size=3)),
        st.builds(lambda name: enum("A", "B", name=name, doc="d"), NAMES),
        st.builds(lambda name, size: fixed(size, name=name, aliases=["x"]), NAMES, st.integers(0, 9)),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)  # fmt: skip


@given(DOCUMENTS)
def test_stored_text_is_the_same_when_parsed_again(document: object) -> None:
    try:
        schema = AVRO.parse(text(document), [])
    except InvalidSchema:
        return
    assert AVRO.parse(schema.text, []).text == schema.text
    assert AVRO.parse(schema.normalized(), []).normalized() == schema.normalized()
    assert check_compatibility("FULL", AVRO.parse(schema.text, []), [schema]) == []


def test_reference_gives_its_types_and_stays_out_of_the_text() -> None:
    inner = reference("n.Inner", record(field("x", "int"), name="n.Inner"))
    schema = AVRO.parse(text(record(field("in", "Inner"), name="n.Outer")), [inner])
    assert schema.text == ('{"type":"record","name":"Outer","namespace":"n","fields":[{"name":"in","type":"Inner"}]}')
    assert schema.formatted("resolved") == (
        '{"type":"record","name":"Outer","namespace":"n","fields":[{"name":"in","type":'
        '{"type":"record","name":"Inner","fields":[{"name":"x","type":"int"}]}}]}'
    )
    assert schema.formatted("unknown") == schema.text
    assert AVRO.parse(schema.text, [inner]).text == schema.text


def test_change_of_a_reference_is_an_incompatibility() -> None:
    outer = text(record(field("in", "Inner"), name="Outer"))
    old = AVRO.parse(outer, [reference("Inner", record(name="Inner"))])
    new = AVRO.parse(outer, [reference("Inner", record(field("x", "int"), name="Inner"))])
    (reason,) = new.incompatibilities(old)
    assert reason.path == "/fields/0/type/fields/0"


def test_reference_that_two_references_share_is_parsed_once() -> None:
    base = reference("Base", record(name="Base"))
    left = reference("Left", record(field("b", "Base"), name="Left"), base)
    right = reference("Right", record(field("b", "Base"), name="Right"), base)
    AVRO.parse(text(record(field("l", "Left"), field("r", "Right"))), [left, right])


def test_invalid_reference_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidSchema, match="The reference Inner is not JSON"):
        AVRO.parse('"int"', [ResolvedReference("Inner", "s", 1, "{", ())])


def test_default_of_another_type_is_refused_of_new_schemas_only() -> None:
    wrong = text(record(field("f", "int", default="x")))
    with pytest.raises(InvalidSchema, match="Default value <x>"):
        AVRO.parse(wrong, [])
    assert AVRO.parse(wrong, [], is_new=False).text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"type":"int","x":NaN}', "NaN is no JSON"),
        ('{"type":"int","x":1e999}', "no number of 64 bits"),
        ('{"type":"int","x":"\\ud800"}', "surrogate"),
        (f'{{"type":"int","x":{"9" * 5_000}}}', "not JSON"),
        ("[" * 100_000, "nested"),
        ('{"type":"array","items":' * (DEPTH_MAX + 1) + '"int"' + "}" * (DEPTH_MAX + 1), "nested"),
        (" " * (TEXT_CHARACTERS_MAX + 1), "are allowed"),
        ('{"type":"bytes","logicalType":"decimal","precision":"x"}', "not valid"),
    ],
)
def test_text_that_is_no_schema_or_beyond_bounds_is_refused(given: str, message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        _ = AVRO.parse(given, []).text


def test_deepest_allowed_schema_is_stored_and_compared() -> None:
    deep = '{"type":"array","items":' * DEPTH_MAX + '"int"' + "}" * DEPTH_MAX
    schema = AVRO.parse(deep, [])
    assert schema.text == deep
    assert schema.incompatibilities(schema) == []


def test_large_enum_is_parsed_and_compared() -> None:
    symbols = [f"SYMBOL_{number}" for number in range(50_000)]
    schema = AVRO.parse(text(enum(*symbols)), [])
    (reason,) = AVRO.parse(text(enum("A")), []).incompatibilities(schema)
    assert len(reason.detail) < 10_000


def test_long_chain_of_references_ends_in_a_clear_error_or_a_schema() -> None:
    chain = reference("R0", record(name="R0"))
    for number in range(1, DEPTH_MAX):
        chain = reference(f"R{number}", record(field("f", f"R{number - 1}"), name=f"R{number}"), chain)
    schema = AVRO.parse(text(f"R{DEPTH_MAX - 1}"), [chain])
    assert schema.formatted("resolved")
    with pytest.raises(InvalidSchema, match="nested more than"):
        AVRO.parse('"int"', [reference("A", "int", reference("B", "int", reference("C", "int", chain)))])


def test_name_of_a_type_may_be_without_quotes() -> None:
    assert AVRO.parse("string", []).text == '"string"'
