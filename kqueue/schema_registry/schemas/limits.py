"""Bounds of schemas: texts, nesting, references, and the work that a comparison may cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kqueue.schema_registry.schemas.contract import Incompatibility, InvalidSchema, ResolvedReference

TEXT_CHARACTERS_MAX = 1024 * 1024
"""Characters of one schema's text, of that of each reference, and of a stored text."""
REFERENCES_MAX = 1_000
"""Schemas that one refers to, those that its references refer to included."""
REFERENCED_CHARACTERS_MAX = 8 * TEXT_CHARACTERS_MAX
"""Characters of all references together."""
DEPTH_MAX = 100
"""Levels of objects and lists in JSON, of messages in Protobuf, and of references."""
COMPARISON_STEPS_MAX = 50_000
"""Pairs of parts that one comparison of two schemas looks at."""
COMPARISON_DEPTH_MAX = 150
"""Levels to which a comparison follows types into types."""
INCOMPATIBILITIES_MAX = 100
"""Reasons that one comparison reports; more are not listed."""


class ComparisonTooLarge(Exception):
    """Two schemas can't be compared within the bounds."""


class ComparisonBudget:
    """Counts the steps of one comparison, and how deep it is."""

    def __init__(self) -> None:
        self._steps = 0
        self._depth = 0

    def spend(self, steps: int) -> None:
        """Count some steps. Raises: ComparisonTooLarge."""
        self._steps += steps
        if self._steps > COMPARISON_STEPS_MAX:
            raise ComparisonTooLarge(f"more than {COMPARISON_STEPS_MAX:,} pairs of types would have to be compared")

    @contextmanager
    def level(self) -> Iterator[None]:
        """Count a step, one level deeper, while the context is open. Raises: ComparisonTooLarge."""
        self.spend(1)
        self._depth += 1
        if self._depth > COMPARISON_DEPTH_MAX:
            raise ComparisonTooLarge(f"types are nested more than {COMPARISON_DEPTH_MAX} deep")
        yield
        self._depth -= 1


def too_large(error: Exception) -> Incompatibility:
    """Return the reason of schemas that are too large to be compared. `error`: what ended it."""
    return Incompatibility("TOO_LARGE", "/", f"The {{reader}} and the {{writer}} schema can not be compared: {error}")


def check_text(text: str) -> None:
    """Raise InvalidSchema if a schema's text is too long, or can't be stored as UTF-8."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidSchema(f"The schema has {len(text):,} characters; {TEXT_CHARACTERS_MAX:,} are allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidSchema("The schema has half a surrogate pair, which no UTF-8 text can have") from None


def all_references(references: Sequence[ResolvedReference]) -> dict[str, str]:
    """Return the texts of all references by name, each after those that it refers to itself.

    A name counts once: the first that is come upon, as in Confluent's registry.
    Raises: InvalidSchema: too many, too deep, in a circle, or too long.
    """
    texts: dict[str, str] = {}
    known: set[str] = set()
    characters = 0

    def add(listed: Sequence[ResolvedReference], within: tuple[tuple[str, int], ...]) -> None:
        nonlocal characters
        if len(within) > DEPTH_MAX:
            raise InvalidSchema(f"References are nested more than {DEPTH_MAX} deep")
        for reference in listed:
            where = reference.subject, reference.version
            if where in within:
                raise InvalidSchema(
                    f"References lead in a circle: {reference.subject} version {reference.version} refers to itself"
                )
            if reference.name in known:
                continue
            known.add(reference.name)
            if len(known) > REFERENCES_MAX:
                raise InvalidSchema(f"The schema has more than {REFERENCES_MAX:,} references")
            check_text(reference.text)
            characters += len(reference.text)
            if characters > REFERENCED_CHARACTERS_MAX:
                raise InvalidSchema(f"The references have more than {REFERENCED_CHARACTERS_MAX:,} characters together")
            add(reference.references, (*within, where))
            texts[reference.name] = reference.text

    add(references, ())
    return texts
