from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import LEVELS, Incompatibility, InvalidSchema, ParsedSchema, check_compatibility
from kqueue.schema_registry.schemas.compatibility import SHOWN_CHARACTERS_MAX


class LetterSchema:
    """A schema whose text is a set of letters; it reads the values of those that have no others."""

    def __init__(self, text: str, type_name: str = "AVRO") -> None:
        self.text = text
        self.type_name = type_name

    def normalized(self) -> str:
        return self.text

    def formatted(self, format: str) -> str:
        return self.text

    def incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        missing = sorted(set(writer.text) - set(self.text))
        return [Incompatibility("MISSING", "/", f"The {{reader}} lacks {one} of the {{writer}}") for one in missing]


EARLIER = [LetterSchema("abc"), LetterSchema("ab")]


def kinds(level: str, new: str, earlier: list[LetterSchema] = EARLIER) -> list[str]:
    return check_compatibility(level, LetterSchema(new), earlier)


@pytest.mark.parametrize(
    ("level", "compatible", "incompatible"),
    [
        ("NONE", ["", "x"], []),
        ("BACKWARD", ["ab", "abd"], ["a"]),
        ("BACKWARD_TRANSITIVE", ["abc", "abcd"], ["ab"]),
        ("FORWARD", ["a", "ab"], ["abc"]),
        ("FORWARD_TRANSITIVE", ["a", "ab"], ["abc"]),
        ("FULL", ["ab"], ["abc", "a"]),
        ("FULL_TRANSITIVE", [], ["ab", "abc"]),
    ],
)
def test_levels_differ_in_who_reads_and_which_versions_count(
    level: str, compatible: list[str], incompatible: list[str]
) -> None:
    assert all(not kinds(level, new) for new in compatible)
    assert all(kinds(level, new) for new in incompatible)


def test_forward_transitive_asks_the_oldest_too() -> None:
    earlier = [LetterSchema("a"), LetterSchema("ab")]
    assert not kinds("FORWARD", "ab", earlier)
    assert kinds("FORWARD_TRANSITIVE", "ab", earlier)


@pytest.mark.parametrize("level", LEVELS)
def test_first_schema_of_a_subject_is_compatible(level: str) -> None:
    assert kinds(level, "x", []) == []


def test_messages_name_new_and_old_the_version_and_the_level() -> None:
    messages = check_compatibility("FULL", LetterSchema("a"), EARLIER, versions=[4, 7])
    assert messages == [
        "{errorType:'MISSING', description:'The new lacks b of the old'}",
        "{oldSchemaVersion: 7}",
        "{oldSchema: 'ab'}",
        "{compatibility: 'FULL'}",
    ]


def test_messages_are_of_the_newest_schema_that_does_not_fit() -> None:
    messages = check_compatibility("BACKWARD_TRANSITIVE", LetterSchema("ab"), EARLIER, versions=[1, 2])
    assert "{oldSchemaVersion: 1}" in messages


def test_another_type_is_incompatible_except_without_a_level() -> None:
    new = LetterSchema("ab", "JSON")
    assert check_compatibility("NONE", new, EARLIER) == []
    assert check_compatibility("BACKWARD", new, EARLIER) == [
        "Incompatible because of different schema type: JSON after AVRO",
        "{compatibility: 'BACKWARD'}",
    ]


def test_long_earlier_schema_is_shown_in_part() -> None:
    messages = kinds("BACKWARD", "", [LetterSchema("a" * 100_000)])
    assert len(max(messages, key=len)) < SHOWN_CHARACTERS_MAX + 100


def test_unknown_level_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="expected one of NONE, BACKWARD"):
        check_compatibility("backward", LetterSchema("a"), [])
