from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema, ResolvedReference
from kqueue.schema_registry.schemas.limits import (
    COMPARISON_DEPTH_MAX,
    COMPARISON_STEPS_MAX,
    REFERENCED_CHARACTERS_MAX,
    REFERENCES_MAX,
    TEXT_CHARACTERS_MAX,
    ComparisonBudget,
    ComparisonTooLarge,
    all_references,
    check_text,
)


def reference(name: str, *references: ResolvedReference, text: str = "t") -> ResolvedReference:
    return ResolvedReference(name, name, 1, text, references)


def test_references_come_after_those_that_they_need() -> None:
    base = reference("base")
    assert list(all_references([reference("a", base), reference("b", base)])) == ["base", "a", "b"]


def test_references_shared_in_all_ways_are_walked_once() -> None:
    level = [reference("0a"), reference("0b")]
    for number in range(1, 50):
        level = [reference(f"{number}{letter}", *level) for letter in "ab"]
    assert len(all_references(level)) == 100


def test_circle_of_references_is_refused() -> None:
    within: list[ResolvedReference] = []
    circular = ResolvedReference("a", "subject", 3, "t", within)
    within.append(ResolvedReference("b", "other", 1, "t", [circular._replace(name="c")]))
    with pytest.raises(InvalidSchema, match="in a circle: subject version 3"):
        all_references([circular])


def test_too_many_and_too_long_references_are_refused() -> None:
    with pytest.raises(InvalidSchema, match="more than 1,000 references"):
        all_references([reference(str(number)) for number in range(REFERENCES_MAX + 1)])
    long = "x" * TEXT_CHARACTERS_MAX
    count = REFERENCED_CHARACTERS_MAX // TEXT_CHARACTERS_MAX + 1
    with pytest.raises(InvalidSchema, match="characters together"):
        all_references([reference(str(number), text=long) for number in range(count)])


def test_text_beyond_the_bound_or_not_of_utf_8_is_refused() -> None:
    check_text("x" * TEXT_CHARACTERS_MAX)
    with pytest.raises(InvalidSchema, match="are allowed"):
        check_text("x" * (TEXT_CHARACTERS_MAX + 1))
    with pytest.raises(InvalidSchema, match="surrogate"):
        check_text("\ud800")


def test_budget_ends_after_its_steps_and_levels() -> None:
    budget = ComparisonBudget()
    budget.spend(COMPARISON_STEPS_MAX)
    with pytest.raises(ComparisonTooLarge, match="pairs of types"):
        budget.spend(1)

    budget = ComparisonBudget()

    def descend(levels: int) -> None:
        with budget.level():
            if levels > 1:
                descend(levels - 1)

    descend(COMPARISON_DEPTH_MAX)
    descend(COMPARISON_DEPTH_MAX)
    with pytest.raises(ComparisonTooLarge, match="deep"):
        descend(COMPARISON_DEPTH_MAX + 1)
