"""Settings of a resource for a page: value, source, default and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kqueue.base.settings import Scope, Setting
from kqueue.client import ResourceType, SettingRow
from kqueue.client.calls.resource_configs import SettingSynonym
from kqueue.config.catalog import CATALOG

SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "this broker, at run time",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, at run time",
    "STATIC_BROKER_CONFIG": "the broker's file",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_GROUP_CONFIG": "this group",
    "DYNAMIC_BROKER_LOGGER_CONFIG": "this logger",
    "DYNAMIC_CLIENT_METRICS_CONFIG": "this subscription",
}
DIGITS_MAX = 19
OWN = {
    ResourceType.TOPIC: ("DYNAMIC_TOPIC_CONFIG",),
    ResourceType.BROKER: ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ResourceType.GROUP: ("DYNAMIC_GROUP_CONFIG",),
}
SCOPES = {
    ResourceType.TOPIC: Scope.TOPIC,
    ResourceType.BROKER: Scope.BROKER,
    ResourceType.GROUP: Scope.GROUP,
}


class SettingView(NamedTuple):
    """A setting on a page.

    `value`, `default`: None: unset, or a secret (`is_secret`). `source`: in words. `is_own`:
    whether the value is of this resource, so that it can be reset. `meaning`: of the broker, else
    of kqueue's table; "": neither has one. `inherited`: the value that counts after a reset, with
    its source; None: not known.
    """

    name: str
    value: str | None
    source: str
    is_own: bool
    is_read_only: bool
    is_secret: bool
    default: str | None
    meaning: str
    inherited: tuple[str | None, str] | None


def setting_views(kind: ResourceType, rows: Iterable[SettingRow]) -> list[SettingView]:
    """Return the settings by name."""
    return sorted(_view(kind, row) for row in rows)


def _view(kind: ResourceType, row: SettingRow) -> SettingView:
    own = OWN.get(kind, ())
    default = next((_in_unit_of(kind, row.name, one) for one in row.synonyms if one.source == "DEFAULT_CONFIG"), None)
    others = [one for one in row.synonyms if one.source not in own]
    is_own = row.source in own
    return SettingView(
        row.name,
        row.value,
        source_words(row.source),
        is_own,
        row.is_read_only,
        row.is_sensitive,
        default if default is not None or row.source != "DEFAULT_CONFIG" else row.value,
        row.documentation or meaning_of(kind, row.name),
        (_in_unit_of(kind, row.name, others[0]), source_words(others[0].source)) if others else None,
    )


def _in_unit_of(kind: ResourceType, name: str, synonym: SettingSynonym) -> str | None:
    """Return the value of a synonym in the unit of the setting: hours as milliseconds."""
    row = _rows(kind).get(name)
    factor = next((one.factor for one in row.synonyms if one.name == synonym.name), 1) if row is not None else 1
    if factor == 1 or synonym.value is None or not synonym.value.isdecimal() or len(synonym.value) > DIGITS_MAX:
        return synonym.value
    return str(int(synonym.value) * factor)


def source_words(source: str) -> str:
    """Return where a value comes from, in words. `source`: Kafka's name of it."""
    return SOURCES.get(source, source.lower().replace("_", " "))


def meaning_of(kind: ResourceType, name: str) -> str:
    """Return the sentence of kqueue's table about a setting; "": it has none of that name."""
    row = _rows(kind).get(name)
    return row.doc if row is not None else ""


def _rows(kind: ResourceType) -> Mapping[str, Setting]:
    return CATALOG.rows(SCOPES[kind]) if kind in SCOPES else {}
