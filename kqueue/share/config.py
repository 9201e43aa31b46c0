"""Settings of share groups: of the broker, and `ShareGroupConfig`, the values of one group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kqueue.base.config import Config
from kqueue.base.errors import InvalidTopic
from kqueue.base.group_setting import BoundedGroupSetting
from kqueue.base.names import INTERNAL_TOPICS, check_topic
from kqueue.base.settings import MiB, Scope, Setting, SettingType, Validator, at_least, between

SHORT_MAX = 2**15 - 1
_REPLICATION = Validator(
    f"-1 (as many as there are), or from 1 to {SHORT_MAX}",
    lambda value: value == -1 or 1 <= value <= SHORT_MAX,
    lambda value: "Value must be at least 1",
)
_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\Z")
LATEST = "latest"
EARLIEST = "earliest"
READ_COMMITTED = "read_committed"
WRITE_TIMEOUT = "share.coordinator.write.timeout.ms"


def _row(name: str, default: int, valid: Validator, doc: str, kind: SettingType = SettingType.INT) -> Setting:
    return Setting(name, kind, default, valid, Scope.BROKER, doc)


SETTINGS: tuple[Setting, ...] = (
    _row(
        "group.share.record.lock.duration.ms",
        30_000,
        between(1000, 3_600_000),
        "Time for which a share group's member holds the records that it has acquired.",
    ),
    _row(
        "group.share.min.record.lock.duration.ms",
        15_000,
        between(1000, 30_000),
        "Minimum of share.record.lock.duration.ms of a group.",
    ),
    _row(
        "group.share.max.record.lock.duration.ms",
        60_000,
        between(30_000, 3_600_000),
        "Maximum of share.record.lock.duration.ms of a group.",
    ),
    _row(
        "group.share.delivery.count.limit",
        5,
        between(2, 10),
        "Deliveries of a record to a share group before it is archived.",
    ),
    _row("group.share.min.delivery.count.limit", 2, between(2, 5), "Minimum of share.delivery.count.limit of a group."),
    _row(
        "group.share.max.delivery.count.limit", 10, between(5, 25), "Maximum of share.delivery.count.limit of a group."
    ),
    _row(
        "group.share.partition.max.record.locks",
        2000,
        between(100, 10_000),
        "Records of one partition that a share group may have in flight.",
    ),
    _row(
        "group.share.min.partition.max.record.locks",
        100,
        between(100, 2000),
        "Minimum of share.partition.max.record.locks of a group.",
    ),
    _row(
        "group.share.max.partition.max.record.locks",
        4000,
        between(2000, 10_000),
        "Maximum of share.partition.max.record.locks of a group.",
    ),
    _row("group.share.max.share.sessions", 2000, at_least(1), "Maximum number of share sessions."),
    _row(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        between(0, 500),
        "Updates of a share partition's state after which all of it is written.",
    ),
    _row(
        "share.coordinator.state.topic.num.partitions",
        50,
        at_least(1),
        "Number of partitions of __share_group_state. It must not change once the topic exists.",
    ),
    _row(
        "share.coordinator.state.topic.replication.factor",
        3,
        _REPLICATION,
        "Number of replicas of __share_group_state. A cluster creates the topic once it has as many brokers.",
        SettingType.SHORT,
    ),
    _row(
        "share.coordinator.state.topic.min.isr",
        2,
        at_least(1),
        "Number of in-sync replicas of __share_group_state without which nothing is written to it.",
        SettingType.SHORT,
    ),
    _row(
        "share.coordinator.state.topic.segment.bytes",
        100 * MiB,
        at_least(1),
        "Segment size of __share_group_state. It is small so that redundant records are soon deleted.",
    ),
    _row(
        "share.coordinator.load.buffer.size",
        5 * MiB,
        at_least(1),
        "Bytes of __share_group_state that a start reads at once.",
    ),
    _row(
        WRITE_TIMEOUT,
        5000,
        at_least(1),
        "Time that an acknowledgement waits to become durable before it fails.",
    ),
    _row(
        "kqueue.max.share.partitions",
        10_000,
        at_least(1),
        "Maximum number of share partitions: partitions of topics, once for each share group that reads them.",
    ),
    _row(
        "kqueue.max.share.record.locks",
        1_000_000,
        at_least(1),
        "Maximum number of records in flight of all share partitions. Above it no new ones are acquired.",
    ),
)

DEAD_LETTER_TOPIC = "kqueue.share.dead.letter.topic"
GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting(
        DEAD_LETTER_TOPIC,
        SettingType.STRING,
        "",
        Validator("the name of a topic, or nothing", lambda value: not value or _is_topic(value)),
        Scope.GROUP,
        "Topic to which records are copied that members of a share group reject, or that reach "
        "share.delivery.count.limit, before they are archived. It is created if it does not exist. "
        "A group can't read its own dead-letter topic.",
    ),
)
"""Settings of single groups that Kafka does not have; Kafka's are in `groups.config`."""
BOUNDED = ("share.record.lock.duration.ms", "share.delivery.count.limit", "share.partition.max.record.locks")
"""The numbers that a group may have of its own."""


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """The values of one share group; times in milliseconds.

    Attributes:
        dead_letter_topic: "": there is none.
        offset_reset: where a new group begins: LATEST, EARLIEST, or an age of records in ms.
    """

    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    record_locks_max: int = 2000
    offset_reset: str | int = LATEST
    read_committed: bool = False
    renew_enabled: bool = True
    dead_letter_topic: str = ""

    @classmethod
    def of(cls, config: Config, own: Mapping[str, Any]) -> ShareGroupConfig:
        """Return the values of a group with `own` values, within the bounds of the broker."""
        lock_duration, delivery_count, record_locks = (BoundedGroupSetting.read(name, config) for name in BOUNDED)
        return cls(
            lock_duration_ms=lock_duration.of(own),
            delivery_count_limit=delivery_count.of(own),
            record_locks_max=record_locks.of(own),
            offset_reset=parse_reset(own.get("share.auto.offset.reset", LATEST)),
            read_committed=own.get("share.isolation.level") == READ_COMMITTED,
            renew_enabled=bool(own.get("share.renew.acknowledge.enable", True)),
            dead_letter_topic=own.get(DEAD_LETTER_TOPIC, ""),
        )


def check_own(config: Config, own: Mapping[str, Any]) -> None:
    """Check settings of a single group. Raises: InvalidConfig: out of the broker's bounds."""
    for name in BOUNDED:
        BoundedGroupSetting.read(name, config).check(own)


def _is_topic(name: str) -> bool:
    try:
        check_topic(name)
    except InvalidTopic:
        return False
    return name not in INTERNAL_TOPICS


def parse_reset(value: str) -> str | int:
    """Return LATEST, EARLIEST, or the milliseconds of ``by_duration:PnDTnHnMn.nS``."""
    match = _DURATION.match(value)
    if match is None:
        return value
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    return int(((days * 24 + hours) * 60 + minutes) * 60_000 + float(match[4] or 0) * 1000)
