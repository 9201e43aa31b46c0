"""Configs of subjects, contexts and all: what requests may set, and what holds where.

A config is a mapping by the names of records and responses (`compatibilityLevel`, ...). Each member
holds by itself: what a subject does not set, its context may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kqueue.schema_registry.data_contract import parse_metadata, parse_rule_set
from kqueue.schema_registry.errors import BAD_REQUEST, INVALID_COMPATIBILITY_LEVEL, RegistryError
from kqueue.schema_registry.schemas import LEVELS

Config: TypeAlias = Mapping[str, Any]

COMPATIBILITY_LEVEL = "compatibilityLevel"
COMPATIBILITY_POLICIES = ("STRICT", "LENIENT")


def _text(name: str, given: object) -> str:
    if not isinstance(given, str) or len(given) > 1_000:
        raise RegistryError(BAD_REQUEST, reason=f"{name} is no string of at most 1,000 characters.")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise RegistryError(BAD_REQUEST, reason=f"{name} has half a surrogate pair.") from None
    return given


def _flag(name: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise RegistryError(BAD_REQUEST, reason=f"{name} is {type(given).__name__}; expected true or false.")
    return given


def _level(name: str, given: object) -> str:
    if not isinstance(given, str) or given.upper() not in LEVELS:
        raise RegistryError(INVALID_COMPATIBILITY_LEVEL, level=str(given)[:100], levels=", ".join(LEVELS))
    return given.upper()


def _policy(name: str, given: object) -> str:
    policy = _text(name, given).upper()
    if policy not in COMPATIBILITY_POLICIES:
        raise RegistryError(
            BAD_REQUEST, reason=f"{name} is {policy[:100]!r}; expected one of {', '.join(COMPATIBILITY_POLICIES)}."
        )
    return policy


_MEMBERS: Mapping[str, Callable[[str, object], Any]] = {
    "alias": _text,
    "normalize": _flag,
    "validateFields": _flag,
    "validateRules": _flag,
    COMPATIBILITY_LEVEL: _level,
    "compatibilityPolicy": _policy,
    "compatibilityGroup": _text,
    "defaultMetadata": lambda _, given: parse_metadata(given),
    "overrideMetadata": lambda _, given: parse_metadata(given),
    "defaultRuleSet": lambda _, given: parse_rule_set(given),
    "overrideRuleSet": lambda _, given: parse_rule_set(given),
}
"""The members of a config, in the order of records, with what reads each."""


def parse_config_update(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request sets; None as a value takes a member away.

    Requests have the level as `compatibility`, and responses as `compatibilityLevel`: both are
    read. Unknown members are skipped. Raises: RegistryError.
    """
    given = dict(fields)
    if "compatibility" in given:
        given[COMPATIBILITY_LEVEL] = given.pop("compatibility")
    return {
        name: None if given[name] is None else read(name, given[name])
        for name, read in _MEMBERS.items()
        if name in given
    }


def updated_config(config: Config | None, update: Config) -> Config:
    """Return a config after an update, without the members that it takes away."""
    members = {**(config or {}), **update}
    known = {name: members[name] for name in _MEMBERS if members.get(name) is not None}
    others = {name: part for name, part in members.items() if name not in _MEMBERS}
    return known | others


def effective_config(configs: Iterable[Config | None]) -> Config:
    """Return what holds, of configs from the nearest scope to the widest. None: there is none."""
    members: dict[str, Any] = {}
    for config in configs:
        for name, part in (config or {}).items():
            members.setdefault(name, part)
    return {name: members[name] for name in _MEMBERS if name in members}
