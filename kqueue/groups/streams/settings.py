"""Settings of streams groups (KIP-1071): of the broker, and their bounds for single groups."""

from __future__ import annotations

from typing import Any

from kqueue.base.settings import INT_MAX, Scope, Setting, SettingType, Validator, at_least


def _row(name: str, default: Any, valid: Validator, doc: str) -> Setting:
    return Setting(name, SettingType.INT, default, valid, Scope.BROKER, doc)


SETTINGS: tuple[Setting, ...] = (
    _row(
        "group.streams.session.timeout.ms",
        45_000,
        at_least(1),
        "Time after which a silent member of a streams group is removed.",
    ),
    _row("group.streams.min.session.timeout.ms", 45_000, at_least(1), "Minimum session timeout of a streams group."),
    _row("group.streams.max.session.timeout.ms", 60_000, at_least(1), "Maximum session timeout of a streams group."),
    _row(
        "group.streams.heartbeat.interval.ms",
        5000,
        at_least(1),
        "Interval at which members of a streams group send heartbeats.",
    ),
    _row("group.streams.min.heartbeat.interval.ms", 5000, at_least(1), "Minimum heartbeat interval of streams groups."),
    _row(
        "group.streams.max.heartbeat.interval.ms", 15_000, at_least(1), "Maximum heartbeat interval of streams groups."
    ),
    _row(
        "group.streams.assignment.interval.ms",
        1000,
        at_least(0),
        "Minimum interval between two assignments of a streams group.",
    ),
    _row("group.streams.min.assignment.interval.ms", 0, at_least(0), "Minimum assignment interval of streams groups."),
    _row(
        "group.streams.max.assignment.interval.ms",
        15_000,
        at_least(0),
        "Maximum assignment interval of streams groups.",
    ),
    _row(
        "group.streams.initial.rebalance.delay.ms",
        3000,
        at_least(0),
        "Time that an empty streams group waits for more members before its first assignment.",
    ),
    _row("group.streams.max.size", INT_MAX, at_least(1), "Maximum number of members of a streams group."),
    _row(
        "group.streams.num.standby.replicas",
        0,
        at_least(0),
        "Standby tasks for each task with state of a streams group.",
    ),
    _row("group.streams.max.standby.replicas", 2, at_least(0), "Maximum number of standby tasks for each task."),
    _row(
        "kqueue.max.group.tasks",
        10_000,
        at_least(1),
        "Maximum number of tasks of a streams group, and of topics in its topology.",
    ),
)
