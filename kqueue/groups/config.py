"""Settings of groups and committed offsets, and `GroupConfig`, the coordinator's values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import InvalidConfig
from kqueue.base.settings import ANY, INT_MAX, MiB, Scope, Setting, SettingType, Validator, at_least, between, one_of
from kqueue.groups.assignors import assignor_names
from kqueue.groups.consumer import settings as consumer_settings
from kqueue.groups.share import settings as share_settings
from kqueue.groups.streams import settings as streams_settings

SHORT_MAX = 2**15 - 1
DURATION = r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
"""A duration as Kafka reads it, in ISO 8601: days, hours, minutes, seconds."""
_REPLICATION = Validator(
    f"-1 (as many as there are), or from 1 to {SHORT_MAX}",
    lambda value: value == -1 or 1 <= value <= SHORT_MAX,
    lambda value: "Value must be at least 1",
)


def _row(name: str, kind: SettingType, default: int, valid: Validator, doc: str) -> Setting:
    return Setting(name, kind, default, valid, Scope.BROKER, doc)


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
    *consumer_settings.SETTINGS,
    *share_settings.SETTINGS,
    *streams_settings.SETTINGS,
)


def _group_row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str) -> Setting:
    return Setting(name, kind, default, valid, Scope.GROUP, doc)


GROUP_SETTINGS: tuple[Setting, ...] = (
    _group_row(
        "consumer.session.timeout.ms", SettingType.INT, 45_000, at_least(1), "Session timeout of a consumer group."
    ),
    _group_row(
        "consumer.heartbeat.interval.ms", SettingType.INT, 5000, at_least(1), "Heartbeat interval of a consumer group."
    ),
    _group_row(
        "consumer.assignment.interval.ms",
        SettingType.INT,
        1000,
        at_least(0),
        "Minimum interval between assignments of a consumer group.",
    ),
    _group_row("share.session.timeout.ms", SettingType.INT, 45_000, at_least(1), "Session timeout of a share group."),
    _group_row(
        "share.heartbeat.interval.ms", SettingType.INT, 5000, at_least(1), "Heartbeat interval of a share group."
    ),
    _group_row(
        "share.assignment.interval.ms",
        SettingType.INT,
        1000,
        at_least(0),
        "Minimum interval between assignments of a share group.",
    ),
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
    _group_row(
        "streams.session.timeout.ms", SettingType.INT, 45_000, at_least(1), "Session timeout of a streams group."
    ),
    _group_row(
        "streams.heartbeat.interval.ms", SettingType.INT, 5000, at_least(1), "Heartbeat interval of a streams group."
    ),
    _group_row(
        "streams.assignment.interval.ms",
        SettingType.INT,
        1000,
        at_least(0),
        "Minimum interval between assignments of a streams group.",
    ),
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


class GroupTimeSetting(NamedTuple):
    """A time in ms, or a count, that groups may have of their own: between `low` and `high`."""

    name: str
    default: int
    low: int
    high: int

    def bound_broken_by(self, value: int) -> str:
        """Return Kafka's words about a value out of bounds, with the broker's setting."""
        kind, _, rest = self.name.partition(".")
        rest = rest.removeprefix("num.")
        if value < self.low:
            return f"greater than or equal to group.{kind}.min.{rest}"
        return f"less than or equal to group.{kind}.max.{rest}"

    def of(self, own: Mapping[str, Any]) -> int:
        """Return the value of a group with these settings, moved into the bounds."""
        return min(max(int(own.get(self.name, self.default)), self.low), self.high)


SESSION_TIMEOUT = GroupTimeSetting("consumer.session.timeout.ms", 45_000, 45_000, 60_000)
HEARTBEAT_INTERVAL = GroupTimeSetting("consumer.heartbeat.interval.ms", 5000, 5000, 15_000)
ASSIGNMENT_INTERVAL = GroupTimeSetting("consumer.assignment.interval.ms", 1000, 0, 15_000)
SHARE_SESSION_TIMEOUT = GroupTimeSetting("share.session.timeout.ms", 45_000, 45_000, 60_000)
SHARE_HEARTBEAT_INTERVAL = GroupTimeSetting("share.heartbeat.interval.ms", 5000, 5000, 15_000)
SHARE_ASSIGNMENT_INTERVAL = GroupTimeSetting("share.assignment.interval.ms", 1000, 0, 15_000)
STANDBY_REPLICAS = "streams.num.standby.replicas"
STREAMS_SESSION_TIMEOUT = SESSION_TIMEOUT._replace(name="streams.session.timeout.ms")
STREAMS_HEARTBEAT_INTERVAL = HEARTBEAT_INTERVAL._replace(name="streams.heartbeat.interval.ms")
STREAMS_ASSIGNMENT_INTERVAL = ASSIGNMENT_INTERVAL._replace(name="streams.assignment.interval.ms")
STREAMS_INITIAL_DELAY = GroupTimeSetting("streams.initial.rebalance.delay.ms", 3000, 0, INT_MAX)


@dataclass(frozen=True, slots=True)
class StreamsConfig:
    """Settings of streams groups; times in milliseconds. `standby_replicas`: its name for one group
    is ``streams.num.standby.replicas``.
    """

    session_timeout: GroupTimeSetting = STREAMS_SESSION_TIMEOUT
    heartbeat_interval: GroupTimeSetting = STREAMS_HEARTBEAT_INTERVAL
    assignment_interval: GroupTimeSetting = STREAMS_ASSIGNMENT_INTERVAL
    initial_delay: GroupTimeSetting = STREAMS_INITIAL_DELAY
    standby_replicas: int = 0
    standby_replicas_max: int = 2
    members_max: int = INT_MAX
    tasks_max: int = 10_000

    @classmethod
    def of(cls, config: Config) -> StreamsConfig:
        """Return the values of a broker's configuration."""
        return cls(
            session_timeout=GroupTimeSetting(
                "streams.session.timeout.ms",
                config["group.streams.session.timeout.ms"],
                config["group.streams.min.session.timeout.ms"],
                config["group.streams.max.session.timeout.ms"],
            ),
            heartbeat_interval=GroupTimeSetting(
                "streams.heartbeat.interval.ms",
                config["group.streams.heartbeat.interval.ms"],
                config["group.streams.min.heartbeat.interval.ms"],
                config["group.streams.max.heartbeat.interval.ms"],
            ),
            assignment_interval=GroupTimeSetting(
                "streams.assignment.interval.ms",
                config["group.streams.assignment.interval.ms"],
                config["group.streams.min.assignment.interval.ms"],
                config["group.streams.max.assignment.interval.ms"],
            ),
            initial_delay=STREAMS_INITIAL_DELAY._replace(default=config["group.streams.initial.rebalance.delay.ms"]),
            standby_replicas=config["group.streams.num.standby.replicas"],
            standby_replicas_max=config["group.streams.max.standby.replicas"],
            members_max=config["group.streams.max.size"],
            tasks_max=config["kqueue.max.group.tasks"],
        )

    @property
    def bounded(self) -> tuple[GroupTimeSetting, ...]:
        """What a group may have of its own within bounds."""
        replicas = GroupTimeSetting(STANDBY_REPLICAS, self.standby_replicas, 0, self.standby_replicas_max)
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
    session_timeout: GroupTimeSetting = SESSION_TIMEOUT
    heartbeat_interval: GroupTimeSetting = HEARTBEAT_INTERVAL
    assignment_interval: GroupTimeSetting = ASSIGNMENT_INTERVAL
    consumer_members_max: int = INT_MAX
    patterns_max: int = 100
    share_session_timeout: GroupTimeSetting = SHARE_SESSION_TIMEOUT
    share_heartbeat_interval: GroupTimeSetting = SHARE_HEARTBEAT_INTERVAL
    share_assignment_interval: GroupTimeSetting = SHARE_ASSIGNMENT_INTERVAL
    share_members_max: int = 200
    can_upgrade: bool = True
    can_downgrade: bool = True
    protocols: frozenset[str] = frozenset({"classic", "consumer", "streams"})
    streams: StreamsConfig = field(default_factory=StreamsConfig)

    def check_own(self, own: Mapping[str, Any]) -> None:
        """Check settings of a single group. Raises: InvalidConfig: out of the broker's bounds."""
        times = (self.session_timeout, self.heartbeat_interval, self.assignment_interval)
        share = (self.share_session_timeout, self.share_heartbeat_interval, self.share_assignment_interval)
        for each in (*times, *share, *self.streams.bounded):
            value = own.get(each.name)
            if value is not None and not each.low <= value <= each.high:
                raise InvalidConfig(
                    f"{each.name} must be {each.bound_broken_by(value)}: {each.name} is from {each.low} to {each.high} "
                    f"on this broker, not {value}"
                )

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
            session_timeout=GroupTimeSetting(
                "consumer.session.timeout.ms",
                config["group.consumer.session.timeout.ms"],
                config["group.consumer.min.session.timeout.ms"],
                config["group.consumer.max.session.timeout.ms"],
            ),
            heartbeat_interval=GroupTimeSetting(
                "consumer.heartbeat.interval.ms",
                config["group.consumer.heartbeat.interval.ms"],
                config["group.consumer.min.heartbeat.interval.ms"],
                config["group.consumer.max.heartbeat.interval.ms"],
            ),
            assignment_interval=GroupTimeSetting(
                "consumer.assignment.interval.ms",
                config["group.consumer.assignment.interval.ms"],
                config["group.consumer.min.assignment.interval.ms"],
                config["group.consumer.max.assignment.interval.ms"],
            ),
            consumer_members_max=config["group.consumer.max.size"],
            patterns_max=config["kqueue.max.group.patterns"],
            share_session_timeout=GroupTimeSetting(
                "share.session.timeout.ms",
                config["group.share.session.timeout.ms"],
                config["group.share.min.session.timeout.ms"],
                config["group.share.max.session.timeout.ms"],
            ),
            share_heartbeat_interval=GroupTimeSetting(
                "share.heartbeat.interval.ms",
                config["group.share.heartbeat.interval.ms"],
                config["group.share.min.heartbeat.interval.ms"],
                config["group.share.max.heartbeat.interval.ms"],
            ),
            share_assignment_interval=GroupTimeSetting(
                "share.assignment.interval.ms",
                config["group.share.assignment.interval.ms"],
                config["group.share.min.assignment.interval.ms"],
                config["group.share.max.assignment.interval.ms"],
            ),
            share_members_max=config["group.share.max.size"],
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
            protocols=frozenset(config["group.coordinator.rebalance.protocols"]),
            streams=StreamsConfig.of(config),
        )
