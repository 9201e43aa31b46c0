from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.limits import DEFAULT_LIMITS, Limits
from kqueue.schema_registry.parsed_schemas import ParsedSchemas
from kqueue.schema_registry.records import RegistryRecord, SchemaKey, SchemaValue
from kqueue.schema_registry.schema_content import SchemaContent
from kqueue.schema_registry.schemas.contract import InvalidSchema, ResolvedReference
from kqueue.schema_registry.state.registry_state import RegistryState
from kqueue.tests.schema_registry.support import content, reference


class CountedType:
    """A schema type whose schemas are the texts; it counts what it parses."""

    name = "AVRO"

    def __init__(self) -> None:
        self.parsed: list[str] = []

    def parse(self, text: str, references: Sequence[ResolvedReference], *, is_new: bool = True) -> Any:
        if text == "bad":
            raise InvalidSchema("it is bad")
        if text == "extra":
            raise ExtraNeeded("install it")
        self.parsed.append(text)
        return text, tuple(references), is_new


def schemas(counted: CountedType, limits: Limits = DEFAULT_LIMITS) -> ParsedSchemas:
    return ParsedSchemas(lambda name: counted, limits)


def state_of(**texts: SchemaContent) -> RegistryState:
    """A state with version 1 of each subject."""
    state = RegistryState()
    for number, (subject, one) in enumerate(texts.items()):
        state.apply(RegistryRecord(SchemaKey(subject, 1), SchemaValue(number + 1, one)))
    return state


def user(*subjects: str, text: str = "user") -> SchemaContent:
    return content(text, references=tuple(reference(subject) for subject in subjects))


def test_references_of_references_come_with_their_texts() -> None:
    state = state_of(base=content("b"), middle=user("base", text="m"))
    resolved = schemas(CountedType()).resolve(state, user("middle"), ".")
    base = ResolvedReference("base", "base", 1, "b")
    assert resolved.references == (ResolvedReference("middle", "middle", 1, "m", (base,)),)


def test_reference_to_the_newest_gets_its_number() -> None:
    state = state_of(base=content("b"))
    state.apply(RegistryRecord(SchemaKey("base", 2), SchemaValue(9, content("c"))))
    resolved = schemas(CountedType()).resolve(state, content("u", references=(reference("base", -1),)), ".")
    assert [one.version for one in resolved.content.references] == [2]
    assert resolved.references[0].text == "c"


def test_references_are_looked_for_in_the_context_of_the_schema() -> None:
    state = state_of(**{":.c:base": content("b")})
    assert schemas(CountedType()).resolve(state, user("base"), ".c").references[0].subject == ":.c:base"
    with pytest.raises(RegistryError, match="not registered"):
        schemas(CountedType()).resolve(state, user("base"), ".")


def test_new_schema_may_not_refer_to_what_is_missing_or_soft_deleted_and_a_stored_one_may_to_the_latter() -> None:
    state = state_of()
    state.apply(RegistryRecord(SchemaKey("base", 1), SchemaValue(1, content("b"), is_deleted=True)))
    parsed = schemas(CountedType())
    for version in (1, 2, -1):
        with pytest.raises(RegistryError, match="not registered") as caught:
            parsed.resolve(state, content("u", references=(reference("base", version),)), ".")
        assert caught.value.code == 42201
    assert parsed.resolve(state, user("base"), ".", is_new=False).references[0].text == "b"


def test_circle_of_references_has_its_own_error() -> None:
    state = state_of(a=user("b"), b=user("a"))
    with pytest.raises(RegistryError, match="circle through 'a' version 1") as caught:
        schemas(CountedType()).resolve(state, user("a"), ".")
    assert caught.value.code == 42201


def test_references_are_bounded_in_number_and_depth() -> None:
    chain = {f"s{number}": user(f"s{number + 1}") for number in range(40)} | {"s40": content("end")}
    with pytest.raises(RegistryError, match="more than 30 deep") as caught:
        schemas(CountedType()).resolve(state_of(**chain), user("s0"), ".")
    assert caught.value.code == 42209
    schemas(CountedType()).resolve(state_of(**chain), user("s12"), ".")
    limits = DEFAULT_LIMITS._replace(resolved_references_max=10)
    with pytest.raises(RegistryError, match="more than 10 references"):
        schemas(CountedType(), limits).resolve(state_of(**chain), user("s20"), ".")


def test_references_that_meet_again_are_resolved_once() -> None:
    levels = {f"l{depth}{side}": user(f"l{depth + 1}a", f"l{depth + 1}b") for depth in range(25) for side in "ab"}
    state = state_of(**levels, l25a=content("a"), l25b=content("b"))
    counted = CountedType()
    parsed = schemas(counted)
    first = parsed.resolve(state, user("l0a", "l0b"), ".")
    assert hash(first.identity) == hash(parsed.resolve(state, user("l0a", "l0b"), ".").identity)
    assert parsed.parse(first) is parsed.parse(first)


def test_schema_is_parsed_once_until_a_text_changes_or_too_many_follow() -> None:
    counted, state = CountedType(), state_of(base=content("b"))
    parsed = schemas(counted, DEFAULT_LIMITS._replace(parsed_schemas_max=2, parsed_schema_characters_max=10))
    for _ in range(2):
        parsed.parse(parsed.resolve(state, user("base"), "."))
    assert counted.parsed == ["user"]
    state.apply(RegistryRecord(SchemaKey("base", 1), SchemaValue(2, content("changed"))))
    parsed.parse(parsed.resolve(state, user("base"), "."))
    assert counted.parsed == ["user", "user"]
    for text in ("a", "b", "c", "a", "x" * 11, "x" * 11):
        parsed.parse(parsed.resolve(state, content(text), "."))
    assert counted.parsed[2:] == ["a", "b", "c", "a", "x" * 11, "x" * 11]


def test_stored_schema_is_parsed_as_such() -> None:
    parsed = schemas(CountedType())
    resolved = parsed.resolve(state_of(), content("a"), ".")
    assert parsed.parse(resolved)[2] is True
    assert parsed.parse(resolved, is_new=False)[2] is False


def test_text_that_is_no_schema_or_needs_an_extra_is_refused() -> None:
    parsed = schemas(CountedType())
    for text, reason in (("bad", "it is bad"), ("extra", "install it")):
        with pytest.raises(RegistryError, match=reason) as caught:
            parsed.parse(parsed.resolve(state_of(), content(text), "."))
        assert caught.value.code == 42201
