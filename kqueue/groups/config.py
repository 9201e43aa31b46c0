"""Settings of groups and committed offsets, and `GroupConfig`, the coordinator's values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kqueue.base.config import Config
from kqueue.base.group_setting import BoundedGroupSetting, broker_names
from kqueue.base.settings import ANY, INT_MAX, MiB, Scope, Setting, SettingType, Validator, at_least, between, one_of
from kqueue.groups.assignors import assignor_names

ModernType = Literal["consumer", "share", "streams"]
"""Types of groups whose broker assigns; as `GroupType` names them."""
POLICIES = ("disabled", "downgrade", "upgrade", "bidirectional")
PROTOCOLS = frozenset({"classic", "consumer", "share", "streams"})
SHORT_MAX = 2**15 - 1
DURATION = r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
"""A duration as Kafka reads it, in ISO 8601: days, hours, minutes, seconds."""
_REPLICATION = Validator(
    f"-1 (as many as there are), or from 1 to {SHORT_MAX}",
    lambda value: value == -1 or 1 <= value <= SHORT_MAX,
    lambda value: "Value must be at least 1",
)


def _row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str) -> Setting:
    return Setting(name, kind, default, valid, Scope.BROKER, doc)


def _group_row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str) -> Setting:
    return Setting(name, kind, default, valid, Scope.GROUP, doc)


class Timing(NamedTuple):
    """A timing that each modern type of groups has, alike in all types.

    Four settings come of it: `group.<type>.<name>`, its bounds `group.<type>.min.<name>` and
    `group.<type>.max.<name>` for single groups, and `<type>.<name>` of a single group.

    Attributes:
        words: what it is, in the sentences about its bounds.
        default, low, high: of the three settings of the broker.
        least: the least value that each of them accepts.
        doc, own_doc: of the broker's setting and of the group's; `{}` is the type.
    """

    name: str
    words: str
    default: int
    low: int
    high: int
    least: int
    doc: str
    own_doc: str

    def rows(self, kind: ModernType) -> tuple[Setting, ...]:
        """Return the broker's settings: the value, its minimum and its maximum."""
        values = (
            (self.default, self.doc.format(kind)),
            (self.low, f"Minimum {self.words} of a {kind} group."),
            (self.high, f"Maximum {self.words} of a {kind} group."),
        )
        return tuple(
            _row(name, SettingType.INT, value, at_least(self.least), doc)
            for name, (value, doc) in zip(broker_names(f"{kind}.{self.name}"), values, strict=True)
        )

    def own_row(self, kind: ModernType) -> Setting:
        """Return the setting of a single group."""
        name, doc = f"{kind}.{self.name}", self.own_doc.format(kind)
        return _group_row(name, SettingType.INT, self.default, at_least(self.least), doc)

    def setting(self, kind: ModernType, config: Config | None = None) -> BoundedGroupSetting:
        """Return the values of a broker's configuration; without one, the defaults."""
        name = f"{kind}.{self.name}"
        if config is None:
            return BoundedGroupSetting(name, self.default, self.low, self.high)
        return BoundedGroupSetting.read(name, config)


TIMINGS = (
    Timing(
        "session.timeout.ms",
        "session timeout",
        45_000,
        45_000,
        60_000,
        1,
        "Time after which a silent member of a {} group is removed.",
        "Session timeout of a {} group.",
    ),
    Timing(
        "heartbeat.interval.ms",
        "heartbeat interval",
        5000,
        5000,
        15_000,
        1,
        "Interval at which members of a {} group send heartbeats.",
        "Heartbeat interval of a {} group.",
    ),
    Timing(
        "assignment.interval.ms",
        "assignment interval",
        1000,
        0,
        15_000,
        0,
        "Minimum interval between two assignments of a {} group. Members that join meanwhile are assigned together.",
        "Minimum interval between assignments of a {} group.",
    ),
)


def _timing_rows(kind: ModernType) -> tuple[Setting, ...]:
    return tuple(row for timing in TIMINGS for row in timing.rows(kind))


def _own_timing_rows(kind: ModernType) -> tuple[Setting, ...]:
    return tuple(timing.own_row(kind) for timing in TIMINGS)


SETTINGS: tuple[Setting, ...] = (
    _row(
        "group.initial.rebalance.delay.ms",
        SettingType.INT,
        0,
        at_least(0),
        "Time that an empty group waits for more members before its first assignment. Each new member "
        "extends it by as much, up to the members' rebalance timeout. 0 as in the server.properties of "
        "Kafka's quick start; Kafka's own default is 3000.",
    ),
    _row(
        "group.min.session.timeout.ms",
        SettingType.INT,
        6000,
        at_least(1),
        "Minimum session timeout that a member may request.",
    ),
    _row(
        "group.max.session.timeout.ms",
        SettingType.INT,
        1_800_000,
        at_least(1),
        "Maximum session timeout that a member may request.",
    ),
    _row("group.max.size", SettingType.INT, INT_MAX, at_least(1), "Maximum number of members of a group."),
    _row(
        "kqueue.max.groups",
        SettingType.INT,
        50_000,
        at_least(1),
        "Maximum number of groups, including those that only have offsets.",
    ),
    _row(
        "kqueue.max.group.bytes",
        SettingType.INT,
        8 * MiB,
        at_least(1),
        "Maximum bytes of member metadata (subscriptions, names) of one group. A member that would "
        "exceed it is refused.",
    ),
    _row(
        "kqueue.max.groups.bytes",
        SettingType.LONG,
        128 * MiB,
        at_least(1),
        "Maximum bytes of member metadata (subscriptions, names) of all groups. A member that would "
        "exceed it is refused.",
    ),
    _row(
        "kqueue.max.pending.members",
        SettingType.INT,
        10_000,
        at_least(1),
        "Maximum number of assigned member ids that have not joined yet. Above it the oldest is revoked, "
        "and its member requests another.",
    ),
    _row(
        "kqueue.max.offsets.bytes",
        SettingType.LONG,
        256 * MiB,
        at_least(1),
        "Maximum memory of all committed offsets (200 bytes each, plus their metadata). A commit that "
        "would exceed it is refused.",
    ),
    _row(
        "offset.metadata.max.bytes",
        SettingType.INT,
        4096,
        at_least(0),
        "Maximum length of the metadata text that can be committed with an offset.",
    ),
    _row(
        "offsets.commit.timeout.ms",
        SettingType.INT,
        5000,
        at_least(1),
        "Time that a commit waits to become durable before it fails.",
    ),
    _row(
        "offsets.retention.minutes",
        SettingType.INT,
        10080,
        at_least(1),
        "Time for which offsets are kept after the last member leaves their group. It starts at the last "
        "commit for consumers without group management, and for topics that the group no longer "
        "subscribes to.",
    ),
    _row(
        "offsets.retention.check.interval.ms",
        SettingType.LONG,
        600_000,
        at_least(1),
        "Interval between checks for expired offsets.",
    ),
    _row(
        "offsets.topic.num.partitions",
        SettingType.INT,
        50,
        at_least(1),
        "Number of partitions of __consumer_offsets. It must not change once the topic exists.",
    ),
    _row(
        "offsets.topic.replication.factor",
        SettingType.SHORT,
        3,
        _REPLICATION,
        "Number of replicas of __consumer_offsets. A cluster creates the topic once it has as many brokers.",
    ),
    _row(
        "offsets.topic.segment.bytes",
        SettingType.INT,
        100 * MiB,
        at_least(1),
        "Segment size of __consumer_offsets. It is small so that compaction soon includes recent records.",
    ),
    *_timing_rows("consumer"),
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
    *_timing_rows("share"),
    _row(
        "group.share.max.size",
        SettingType.INT,
        200,
        between(1, 1000),
        "Maximum number of members of a share group.",
    ),
    _row(
        "group.share.assignors",
        SettingType.LIST,
        ["simple"],
        Validator("simple", lambda value: list(value) == ["simple"]),
        "Assignors of share groups; there is one.",
    ),
    *_timing_rows("streams"),
    _row(
        "group.streams.initial.rebalance.delay.ms",
        SettingType.INT,
        3000,
        at_least(0),
        "Time that an empty streams group waits for more members before its first assignment.",
    ),
    _row(
        "group.streams.max.size", SettingType.INT, INT_MAX, at_least(1), "Maximum number of members of a streams group."
    ),
    _row(
        "group.streams.num.standby.replicas",
        SettingType.INT,
        0,
        at_least(0),
        "Standby tasks for each task with state of a streams group.",
    ),
    _row(
        "group.streams.max.standby.replicas",
        SettingType.INT,
        2,
        at_least(0),
        "Maximum number of standby tasks for each task.",
    ),
    _row(
        "kqueue.max.group.tasks",
        SettingType.INT,
        10_000,
        at_least(1),
        "Maximum number of tasks of a streams group, and of topics in its topology.",
    ),
)


GROUP_SETTINGS: tuple[Setting, ...] = (
    *_own_timing_rows("consumer"),
    *_own_timing_rows("share"),
    _group_row(
        "share.record.lock.duration.ms",
        SettingType.INT,
        30_000,
        between(1000, 3_600_000),
        "Time for which a share group's member holds the records that it has acquired.",
    ),
    _group_row(
        "share.delivery.count.limit", SettingType.INT, 5, between(2, 25), "Deliveries of a record to a share group."
    ),
    _group_row(
        "share.partition.max.record.locks",
        SettingType.INT,
        2000,
        between(100, 10_000),
        "Records of one partition that a share group may have acquired.",
    ),
    _group_row(
        "share.auto.offset.reset",
        SettingType.STRING,
        "latest",
        Validator(
            "latest, earliest, or by_duration:PnDTnHnMn.nS",
            lambda value: value in ("latest", "earliest") or re.fullmatch(DURATION, value) is not None,
            lambda value: (
                f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either "
                "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            ),
        ),
        "Where a new share group begins.",
    ),
    _group_row(
        "share.isolation.level",
        SettingType.STRING,
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        "Transactional records that a share group receives.",
    ),
    _group_row(
        "share.renew.acknowledge.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        "Whether members of a share group may renew their locks.",
    ),
    *_own_timing_rows("streams"),
    _group_row("streams.num.standby.replicas", SettingType.INT, 0, at_least(0), "Standby tasks of a streams group."),
    _group_row(
        "streams.initial.rebalance.delay.ms",
        SettingType.INT,
        3000,
        at_least(0),
        "Time that an empty streams group waits for more members.",
    ),
)
"""Settings of single groups. Source: Kafka's GroupConfig."""

GROUP_DEFAULT_NAMES = {
    row.name: row.name
    if row.name in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
    else f"group.{row.name}"
    for row in GROUP_SETTINGS
}
"""By the name of a group's setting: Kafka's name of the broker setting with its default."""


STANDBY_REPLICAS = "streams.num.standby.replicas"
STREAMS_INITIAL_DELAY = BoundedGroupSetting("streams.initial.rebalance.delay.ms", 3000, 0, INT_MAX)


@dataclass(frozen=True, slots=True)
class ModernConfig:
    """Settings that each modern type of groups has; times in milliseconds."""

    session_timeout: BoundedGroupSetting
    heartbeat_interval: BoundedGroupSetting
    assignment_interval: BoundedGroupSetting
    members_max: int

    @property
    def bounded(self) -> tuple[BoundedGroupSetting, ...]:
        """The settings that a group may have of its own within bounds."""
        return self.session_timeout, self.heartbeat_interval, self.assignment_interval


def _timings(
    kind: ModernType, config: Config | None = None
) -> tuple[BoundedGroupSetting, BoundedGroupSetting, BoundedGroupSetting]:
    session_timeout, heartbeat_interval, assignment_interval = (timing.setting(kind, config) for timing in TIMINGS)
    return session_timeout, heartbeat_interval, assignment_interval


@dataclass(frozen=True, slots=True)
class StreamsConfig(ModernConfig):
    """Settings of streams groups. `standby_replicas`: its name for one group is
    ``streams.num.standby.replicas``.
    """

    initial_delay: BoundedGroupSetting = STREAMS_INITIAL_DELAY
    standby_replicas: int = 0
    standby_replicas_max: int = 2
    tasks_max: int = 10_000

    @classmethod
    def of(cls, config: Config) -> StreamsConfig:
        """Return the values of a broker's configuration."""
        return cls(
            *_timings("streams", config),
            members_max=config["group.streams.max.size"],
            initial_delay=STREAMS_INITIAL_DELAY._replace(default=config["group.streams.initial.rebalance.delay.ms"]),
            standby_replicas=config["group.streams.num.standby.replicas"],
            standby_replicas_max=config["group.streams.max.standby.replicas"],
            tasks_max=config["kqueue.max.group.tasks"],
        )

    @property
    def bounded(self) -> tuple[BoundedGroupSetting, ...]:
        """The settings that a group may have of its own within bounds."""
        replicas = BoundedGroupSetting(STANDBY_REPLICAS, self.standby_replicas, 0, self.standby_replicas_max)
        return self.session_timeout, self.heartbeat_interval, self.assignment_interval, replicas

    def standby_replicas_of(self, own: Mapping[str, Any]) -> int:
        """Return how many standby tasks a group with these settings has for each task."""
        wanted = int(own.get(STANDBY_REPLICAS, self.standby_replicas))
        return min(wanted, self.standby_replicas_max)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of the group coordinator; times in milliseconds, sizes in bytes."""

    initial_rebalance_delay_ms: int = 0
    session_timeout_min_ms: int = 6000
    session_timeout_max_ms: int = 1_800_000
    members_max: int = INT_MAX
    groups_max: int = 50_000
    group_bytes_max: int = 8 * MiB
    all_groups_bytes_max: int = 128 * MiB
    pending_members_max: int = 10_000
    offsets_bytes_max: int = 256 * MiB
    metadata_length_max: int = 4096
    commit_timeout_ms: int = 5000
    retention_ms: int = 10080 * 60_000
    retention_check_interval_ms: int = 600_000
    assignors: tuple[str, ...] = ("uniform", "range")
    patterns_max: int = 100
    can_upgrade: bool = True
    can_downgrade: bool = True
    protocols: frozenset[str] = frozenset({"classic", "consumer", "streams"})
    consumer: ModernConfig = ModernConfig(*_timings("consumer"), members_max=INT_MAX)
    share: ModernConfig = ModernConfig(*_timings("share"), members_max=200)
    streams: StreamsConfig = StreamsConfig(*_timings("streams"), members_max=INT_MAX)

    def check_own(self, own: Mapping[str, Any]) -> None:
        """Check settings of a single group. Raises: InvalidConfig: out of the broker's bounds."""
        for each in (*self.consumer.bounded, *self.share.bounded, *self.streams.bounded):
            each.check(own)

    @classmethod
    def of(cls, config: Config) -> GroupConfig:
        """Return the values of a broker's configuration."""
        policy = str(config["group.consumer.migration.policy"]).lower()
        return cls(
            initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
            session_timeout_min_ms=config["group.min.session.timeout.ms"],
            session_timeout_max_ms=config["group.max.session.timeout.ms"],
            members_max=config["group.max.size"],
            groups_max=config["kqueue.max.groups"],
            group_bytes_max=config["kqueue.max.group.bytes"],
            all_groups_bytes_max=config["kqueue.max.groups.bytes"],
            pending_members_max=config["kqueue.max.pending.members"],
            offsets_bytes_max=config["kqueue.max.offsets.bytes"],
            metadata_length_max=config["offset.metadata.max.bytes"],
            commit_timeout_ms=config["offsets.commit.timeout.ms"],
            retention_ms=config["offsets.retention.minutes"] * 60_000,
            retention_check_interval_ms=config["offsets.retention.check.interval.ms"],
            assignors=assignor_names(config["group.consumer.assignors"]),
            patterns_max=config["kqueue.max.group.patterns"],
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
            protocols=frozenset(config["group.coordinator.rebalance.protocols"]),
            consumer=ModernConfig(*_timings("consumer", config), members_max=config["group.consumer.max.size"]),
            share=ModernConfig(*_timings("share", config), members_max=config["group.share.max.size"]),
            streams=StreamsConfig.of(config),
        )
