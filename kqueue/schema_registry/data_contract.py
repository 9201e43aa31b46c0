"""Metadata and rules that a schema carries: read, merged and hashed as Confluent's clients do.

The registry executes no rule. It keeps them in one form, so that equal ones have equal bytes: keys
and sets sorted, empty parts left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from kqueue.schema_registry.errors import INVALID_RULE_SET, RegistryError

Metadata: TypeAlias = Mapping[str, Any]
"""`tags` (path -> sorted names), `properties` (name -> text), `sensitive` (sorted names).

Immutable.
"""
RuleSet: TypeAlias = Mapping[str, Any]
"""Lists of rules by the names of `RULE_LISTS`, and a text `ENABLE_AT`. Immutable."""

RULE_LISTS: Mapping[str, tuple[str, ...]] = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
"""The lists of a rule set, and the modes that their rules may have."""
ENABLE_AT = "enableAt"
"""The member of a rule set that says when clients begin with it."""
RULE_KINDS = ("TRANSFORM", "CONDITION")
Rule: TypeAlias = Mapping[str, Any]
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type", "expr", "onSuccess", "onFailure")
_RULE_ORDER = ("name", "doc", "kind", "mode", "type", "tags", "params", "expr", "onSuccess", "onFailure", "disabled")
_RULE_NAME = re.compile(r"[^\W\d][\w-]{0,199}")
_DISTINCT = b"\x01"


def parse_metadata(given: object) -> Metadata | None:
    """Return metadata of a request or record; None: there is none. Raises: RegistryError."""
    if given is None:
        return None
    fields = _object(given, "metadata")
    tags = {
        path: sorted(set(_texts(names, f"tags of {path!r}"))) for path, names in _members(fields.get("tags"), "tags")
    }
    properties = {
        name: _text(value, f"property {name!r}") for name, value in _members(fields.get("properties"), "properties")
    }
    sensitive = sorted(set(_texts(fields.get("sensitive"), "sensitive")))
    return _non_empty({"tags": tags, "properties": properties, "sensitive": sensitive})


def parse_rule_set(given: object, *, is_new: bool = True) -> RuleSet | None:
    """Return the rules of a request or record; None: there is none.

    Args: is_new: False: they are stored already, so that only what they are made of is checked.
    Raises: RegistryError.
    """
    if given is None:
        return None
    fields = _object(given, "ruleSet")
    rules: dict[str, Any] = {name: [_rule(one, name) for one in _list(fields.get(name), name)] for name in RULE_LISTS}
    if is_new:
        for name, modes in RULE_LISTS.items():
            _check_rules(rules[name], name, modes)
    if fields.get(ENABLE_AT) is not None:
        rules[ENABLE_AT] = _text(fields[ENABLE_AT], ENABLE_AT)
    return _non_empty(rules)


def merge_metadata(older: Metadata | None, newer: Metadata | None) -> Metadata | None:
    """Return both, of which `newer` wins."""
    if older is None or newer is None:
        return newer if older is None else older
    return _non_empty(
        {
            "tags": dict(sorted({**older.get("tags", {}), **newer.get("tags", {})}.items())),
            "properties": dict(sorted({**older.get("properties", {}), **newer.get("properties", {})}.items())),
            "sensitive": sorted({*older.get("sensitive", ()), *newer.get("sensitive", ())}),
        }
    )


def merge_rule_sets(older: RuleSet | None, newer: RuleSet | None) -> RuleSet | None:
    """Return both; a rule of `newer` replaces the one of its name."""
    if older is None or newer is None:
        return newer if older is None else older
    merged: dict[str, Any] = {}
    for name in RULE_LISTS:
        rules = newer.get(name, [])
        names = {rule["name"] for rule in rules}
        merged[name] = [rule for rule in older.get(name, []) if rule["name"] not in names] + rules
    merged[ENABLE_AT] = newer.get(ENABLE_AT, older.get(ENABLE_AT))
    return _non_empty(merged)


def metadata_parts(metadata: Metadata | None) -> Iterator[bytes]:
    """Yield what a schema's MD5 includes of metadata. Source: Confluent's client, Apache-2.0."""
    if metadata is None:
        return
    yield _DISTINCT
    for path, names in metadata.get("tags", {}).items():
        yield from map(str.encode, (path, *names))
    for pair in metadata.get("properties", {}).items():
        yield from map(str.encode, pair)
    yield from map(str.encode, metadata.get("sensitive", ()))


def rule_set_parts(rules: RuleSet | None) -> Iterator[bytes]:
    """Yield what a schema's MD5 includes of rules. Source: Confluent's client, Apache-2.0."""
    if rules is None:
        return
    yield _DISTINCT
    for name in RULE_LISTS:
        for rule in rules.get(name, ()):
            yield from (rule[field].encode() for field in ("name", "doc", "kind", "mode", "type") if field in rule)
            yield from map(str.encode, rule.get("tags", ()))
            for pair in rule.get("params", {}).items():
                yield from map(str.encode, pair)
            yield from (rule[field].encode() for field in ("expr", "onSuccess", "onFailure") if field in rule)
            if rule["disabled"]:
                yield _DISTINCT
    if ENABLE_AT in rules:
        yield rules[ENABLE_AT].encode()


def _rule(given: object, list_name: str) -> Rule:
    fields = _object(given, f"a rule of {list_name}")
    rule: dict[str, Any] = {
        name: _text(fields[name], f"{name} of a rule") for name in _RULE_TEXTS if fields.get(name) is not None
    }
    rule.setdefault("name", "")
    rule.setdefault("kind", RULE_KINDS[0])
    rule.setdefault("mode", RULE_LISTS[list_name][-1])
    what = f"rule {rule['name'][:100]!r}"
    rule["tags"] = sorted(set(_texts(fields.get("tags"), f"tags of {what}")))
    rule["params"] = {
        key: _text(value, f"params of {what}") for key, value in _members(fields.get("params"), f"params of {what}")
    }
    rule["disabled"] = fields.get("disabled") is True
    return {key: rule[key] for key in _RULE_ORDER if key in rule and rule[key] not in ([], {})}


def _check_rules(rules: Sequence[Rule], list_name: str, modes: Sequence[str]) -> None:
    """Raise RegistryError unless new rules are ones that clients can run."""
    names: set[str] = set()
    for rule in rules:
        name = rule["name"]
        if not _RULE_NAME.fullmatch(name):
            raise _refused(f"the name {name[:100]!r} of a rule; expected letters, digits, _ and -, no digit first")
        if name in names:
            raise _refused(f"two rules of {list_name} have the name {name!r}")
        names.add(name)
        if "type" not in rule:
            raise _refused(f"rule {name!r} has no type")
        for member, allowed in (("kind", RULE_KINDS), ("mode", modes)):
            if rule[member] not in allowed:
                raise _refused(
                    f"the {member} {rule[member][:100]!r} of rule {name!r}; expected one of {', '.join(allowed)}"
                )


def _non_empty(parts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: part for name, part in parts.items() if part}


def _members(given: object, what: str) -> list[tuple[str, Any]]:
    members = {} if given is None else _object(given, what)
    return sorted((_text(name, what), value) for name, value in members.items())


def _object(given: object, what: str) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise _refused(f"{what} is {type(given).__name__}; expected an object")
    return given


def _list(given: object, what: str) -> Sequence[object]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise _refused(f"{what} is {type(given).__name__}; expected a list")
    return given


def _texts(given: object, what: str) -> list[str]:
    return [_text(one, what) for one in _list(given, what)]


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise _refused(f"{what} is {type(given).__name__}; expected a string")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise _refused(f"{what} has half a surrogate pair, which no UTF-8 text can have") from None
    return given


def _refused(reason: str) -> RegistryError:
    return RegistryError(INVALID_RULE_SET, reason=reason)
