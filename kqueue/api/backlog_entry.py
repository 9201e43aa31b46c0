"""The unread backlog of a topic with a bound, as an entry in DescribeConfigs.

No API of Kafka reports it, and every client can read settings: the entry is read-only, its source
is the default, and a topic without a bound has none. `kqueue topics describe` shows it.
"""

from __future__ import annotations

import json

from kqueue.api.config_entries import ConfigEntry
from kqueue.base.config import ConfigSource
from kqueue.base.settings import ANY, Scope, Setting, SettingType
from kqueue.broker.topics.topic_configs import BACKLOG_ENTRY
from kqueue.broker.upkeep.backlog import BacklogDescription

PARTITIONS_MAX = 100
"""Partitions in the entry, those with most unread messages: before version 4 a value has at most
32,767 bytes.
"""
GROUP_LENGTH_MAX = 200
_ROW = Setting(
    BACKLOG_ENTRY,
    SettingType.STRING,
    None,
    ANY,
    Scope.BROKER,
    "Unread backlog of the topic, as JSON: what producers get (open, refusing, slowing), unread messages and "
    "bytes, the slowest group, and the same of the partitions with most unread messages.",
)


def backlog_entry(backlog: BacklogDescription) -> ConfigEntry:
    """Return the entry of what `TopicBacklog.describe(PARTITIONS_MAX)` returned."""
    value = {
        "state": backlog.state.value,
        "messages": backlog.messages,
        "bytes": backlog.bytes,
        "group": _shown(backlog.group),
        "partitions": [
            {"partition": one.partition, "messages": one.messages, "bytes": one.bytes, "group": _shown(one.group)}
            for one in backlog.partitions
        ],
    }
    return ConfigEntry(_ROW, json.dumps(value, ensure_ascii=False), ConfigSource.DEFAULT, [])


def _shown(group: str | None) -> str | None:
    return None if group is None else group[:GROUP_LENGTH_MAX]
