"""Usage of plugins: which topics and brokers name them, from a broker's settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from kqueue.cli.connect import admin
from kqueue.cli.effective_settings import broker_settings, topic_settings

UNKNOWN_CODECS = {"producer"}  # the codec of the producer, not known here
OTHER_NAMES = {"uncompressed": "none"}
TOPIC_SETTINGS = {"compression.type": "codec", "cleanup.policy": "cleanup-policy", "kqueue.partitioner": "partitioner"}
TIER_URL = "kqueue.tier.url"
BROKER_SETTINGS = {
    "kqueue.storage": "storage",
    "kqueue.metadata": "metadata-store",
    "kqueue.codecs": "codec",
    "group.consumer.assignors": "assignor",
    "authorizer.class.name": "authorizer",
    TIER_URL: "tier-store",
}
Users = dict[str, dict[str, set[Any]]]


class Usage(NamedTuple):
    """Users of plugins.

    Attributes:
        topics, brokers: names of topics and ids of brokers, by kind, then by the name in their
            settings.
        preferred: codecs that the broker's settings prefer.
    """

    topics: Mapping[str, dict[str, set[str]]]
    brokers: Mapping[str, dict[str, set[int]]]
    preferred: frozenset[str]


NOBODY = Usage({}, {}, frozenset())


def ask(bootstrap: str) -> Usage:
    """Return the usage that the broker at `bootstrap` reports. Raises: ClickException: no
    answer.
    """
    with admin(bootstrap) as client:
        names = sorted(topic["name"] for topic in client.describe_topics())
        topics: Users = defaultdict(lambda: defaultdict(set))
        for name, values in topic_settings(client, names, TOPIC_SETTINGS).items():
            _note(topics, TOPIC_SETTINGS, values, name)
        brokers: Users = defaultdict(lambda: defaultdict(set))
        for id, values in broker_settings(client, bootstrap, BROKER_SETTINGS).items():
            _note(brokers, BROKER_SETTINGS, _with_store(values), id)
    return Usage(topics, brokers, frozenset(brokers.get("codec", ())))


def _with_store(values: dict[str, str]) -> dict[str, str]:
    """Return the settings with the default metadata store, which depends on the storage."""
    storage = values.get("kqueue.storage")
    return {"kqueue.metadata": "memory" if storage == "memory" else "sqlite", **values} if storage else values


def _note(users: Users, settings: Mapping[str, str], values: Mapping[str, str], user: object) -> None:
    for setting, text in values.items():
        for name in _names(setting, text):
            if name not in UNKNOWN_CODECS:
                printable = name if name.isprintable() else repr(name)  # it is printed on a terminal
                users[settings[setting]][OTHER_NAMES.get(name, printable)].add(user)


def _names(setting: str, text: str) -> list[str]:
    """Return the names of plugins in the value of a setting."""
    if setting == TIER_URL:
        scheme, separator, _ = text.partition("://")
        return [scheme.lower()] if separator else []
    return [part.strip() for part in text.split(",") if part.strip()]
