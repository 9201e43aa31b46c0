"""Settings of consumer groups (KIP-848): of the broker, and their bounds for single groups."""

from __future__ import annotations

from typing import Any

from kqueue.base.settings import INT_MAX, Scope, Setting, SettingType, Validator, at_least

POLICIES = ("disabled", "downgrade", "upgrade", "bidirectional")
PROTOCOLS = frozenset({"classic", "consumer", "share", "streams"})


def _row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str) -> Setting:
    return Setting(name, kind, default, valid, Scope.BROKER, doc)


SETTINGS: tuple[Setting, ...] = (
    _row(
        "group.consumer.session.timeout.ms",
        SettingType.INT,
        45_000,
        at_least(1),
        "Time after which a silent member of a consumer group is removed.",
    ),
    _row(
        "group.consumer.min.session.timeout.ms",
        SettingType.INT,
        45_000,
        at_least(1),
        "Minimum session timeout of a consumer group.",
    ),
    _row(
        "group.consumer.max.session.timeout.ms",
        SettingType.INT,
        60_000,
        at_least(1),
        "Maximum session timeout of a consumer group.",
    ),
    _row(
        "group.consumer.heartbeat.interval.ms",
        SettingType.INT,
        5000,
        at_least(1),
        "Interval at which members of a consumer group send heartbeats.",
    ),
    _row(
        "group.consumer.min.heartbeat.interval.ms",
        SettingType.INT,
        5000,
        at_least(1),
        "Minimum heartbeat interval of a consumer group.",
    ),
    _row(
        "group.consumer.max.heartbeat.interval.ms",
        SettingType.INT,
        15_000,
        at_least(1),
        "Maximum heartbeat interval of a consumer group.",
    ),
    _row(
        "group.consumer.assignment.interval.ms",
        SettingType.INT,
        1000,
        at_least(0),
        "Minimum interval between two assignments of a consumer group. Members that join meanwhile are "
        "assigned together.",
    ),
    _row(
        "group.consumer.min.assignment.interval.ms",
        SettingType.INT,
        0,
        at_least(0),
        "Minimum assignment interval of a consumer group.",
    ),
    _row(
        "group.consumer.max.assignment.interval.ms",
        SettingType.INT,
        15_000,
        at_least(0),
        "Maximum assignment interval of a consumer group.",
    ),
    _row(
        "group.consumer.max.size",
        SettingType.INT,
        INT_MAX,
        at_least(1),
        "Maximum number of members of a consumer group.",
    ),
    _row(
        "group.consumer.assignors",
        SettingType.LIST,
        ["uniform", "range"],
        Validator("names of assignors, or name=module:Class, comma separated", bool),
        "Assignors that members of consumer groups may ask for, comma separated: uniform, range, names of plugins, "
        "or name=module:Class; the first is the default.",
    ),
    _row(
        "group.coordinator.rebalance.protocols",
        SettingType.LIST,
        ["classic", "consumer", "streams"],
        Validator(
            "classic, consumer, share, streams; classic is among them",
            lambda value: "classic" in value and set(value) <= PROTOCOLS,
        ),
        "Group protocols that clients may use. Without consumer, ConsumerGroupHeartbeat is refused with "
        "UNSUPPORTED_VERSION.",
    ),
    _row(
        "group.consumer.migration.policy",
        SettingType.STRING,
        "bidirectional",
        Validator(f"one of {', '.join(POLICIES)}", lambda value: value.lower() in POLICIES),
        "Whether groups with members change between the classic and the consumer protocol: upgrade, when a "
        "member of the consumer protocol joins; downgrade, when the last one leaves.",
    ),
    _row(
        "kqueue.max.group.patterns",
        SettingType.INT,
        100,
        at_least(1),
        "Maximum number of different topic patterns of the members of one consumer group.",
    ),
)
