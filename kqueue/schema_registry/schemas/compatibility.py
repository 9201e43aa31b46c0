"""Compatibility of a new schema with the earlier ones of its subject, at each level.

Source: Confluent's Schema Registry, "Schema Evolution and Compatibility".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kqueue.schema_registry.schemas.contract import InvalidSchema, ParsedSchema

SHOWN_CHARACTERS_MAX = 10 * 1024
"""Characters of an earlier schema that a message shows."""


class _Level(NamedTuple):
    """The rules of a level.

    Attributes:
        new_reads: whether the new schema has to read what earlier ones wrote.
        old_reads: whether earlier ones have to read what the new schema will write.
        is_transitive: whether all earlier schemas count, or the newest only.
    """

    new_reads: bool
    old_reads: bool
    is_transitive: bool


LEVELS: Mapping[str, _Level] = {
    "NONE": _Level(new_reads=False, old_reads=False, is_transitive=False),
    "BACKWARD": _Level(new_reads=True, old_reads=False, is_transitive=False),
    "BACKWARD_TRANSITIVE": _Level(new_reads=True, old_reads=False, is_transitive=True),
    "FORWARD": _Level(new_reads=False, old_reads=True, is_transitive=False),
    "FORWARD_TRANSITIVE": _Level(new_reads=False, old_reads=True, is_transitive=True),
    "FULL": _Level(new_reads=True, old_reads=True, is_transitive=False),
    "FULL_TRANSITIVE": _Level(new_reads=True, old_reads=True, is_transitive=True),
}
"""The compatibility levels, as requests and records name them."""


def check_compatibility(
    level: str, new: ParsedSchema, earlier: Sequence[ParsedSchema], versions: Sequence[int] = ()
) -> list[str]:
    """Return why a new schema is not compatible, as ``verbose=true`` shows it; empty: it is.

    The newest is compared first, and the first that does not fit ends it: messages are of one.

    Args:
        level: a name of `LEVELS`.
        earlier: schemas of the subject, oldest first.
        versions: their versions, which messages name; empty: they do not.
    Raises: InvalidSchema: there is no such level.
    """
    rules = LEVELS.get(level)
    if rules is None:
        raise InvalidSchema(f"Invalid compatibility level {level[:100]}: expected one of {', '.join(LEVELS)}")
    for index in reversed(range(len(earlier))[0 if rules.is_transitive else -1 :]):
        messages = _messages(rules, new, earlier[index], versions[index] if versions else None)
        if messages:
            return [*messages, f"{{compatibility: '{level}'}}"]
    return []


def _messages(rules: _Level, new: ParsedSchema, old: ParsedSchema, version: int | None) -> list[str]:
    """Return why two schemas do not fit, and then which schema the old one is."""
    if not (rules.old_reads or rules.new_reads):
        return []
    if new.type_name != old.type_name:
        return [f"Incompatible because of different schema type: {new.type_name} after {old.type_name}"]
    messages: list[str] = []
    if rules.old_reads:
        messages += [one.text("old", "new") for one in old.incompatibilities(new)]
    if rules.new_reads:
        messages += [one.text("new", "old") for one in new.incompatibilities(old)]
    if messages:
        messages += [] if version is None else [f"{{oldSchemaVersion: {version}}}"]
        messages.append(_shown(old.text))
    return messages


def _shown(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return f"{{oldSchema: '{text}'}}"
    return f"{{oldSchema: <truncated to {SHOWN_CHARACTERS_MAX} characters> '{text[:SHOWN_CHARACTERS_MAX]}'}}"
