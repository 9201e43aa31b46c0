"""The objects that the managers of modern groups share with their coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.timers import Timers
from kqueue.groups.config import GroupConfig
from kqueue.groups.group import Group
from kqueue.groups.limits import GroupLimits
from kqueue.groups.modern.topics import TopicsMetadata
from kqueue.groups.modern.write_queue import WriteQueue

GroupSettings = Callable[[str], Mapping[str, Any]]
"""Returns the settings that were set for a group."""


class Environment(NamedTuple):
    """The parts. `groups`: the coordinator's table of groups of all types, by id."""

    config: GroupConfig
    clock: Clock
    timers: Timers
    limits: GroupLimits
    groups: MutableMapping[str, Group]
    queue: WriteQueue
    topics: TopicsMetadata
    settings: GroupSettings
