"""Kafka's topic settings, each with its broker-wide default.

Kafka's tools show and set all of them. Some have no effect yet; their help text says so.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import PluginError, SettingError
from kqueue.base.settings import (
    ANY,
    LONG_MAX,
    GiB,
    MiB,
    Scope,
    Setting,
    SettingType,
    Synonym,
    Validator,
    at_least,
    between,
    one_of,
)
from kqueue.log.policies import POLICIES
from kqueue.records.partitioners import DEFAULT as PARTITIONER_DEFAULT

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NOT_YET = "Kept and shown, but kqueue does not act on it yet."
NEVER = "Kept and shown for Kafka's tools; kqueue has no such thing."
LOG_APPEND_TIME = "LogAppendTime"


def _row(name: str, kind: SettingType, default: Any, valid: Validator, doc: str, *synonyms: str | Synonym) -> Setting:
    named = tuple(Synonym(item) if isinstance(item, str) else item for item in synonyms)
    without_effect = any(words in doc for words in (NOT_YET, NEVER))
    return Setting(name, kind, default, valid, Scope.TOPIC, doc, named, without_effect)


def _policies(value: list[str]) -> bool:
    """Whether each is the name of a cleanup policy that can be used. Raises SettingError: which is
    not, and which there are.
    """
    for name in value:
        try:
            POLICIES.get(name)
        except PluginError as error:
            raise SettingError(f"cleanup.policy={','.join(value)}: {error}") from None
    return bool(value) and len(set(value)) == len(value)


def _gzip_level(value: int) -> bool:
    return value == -1 or 1 <= value <= 9


TOPIC_SETTINGS: tuple[Setting, ...] = (
    # how the log is cut into files
    _row(
        "segment.bytes",
        SettingType.INT,
        GiB,
        at_least(14),
        "Roll when the active segment would pass this size.",
        "log.segment.bytes",
    ),
    _row(
        "segment.ms",
        SettingType.LONG,
        7 * DAY_MS,
        at_least(1),
        "Roll when a batch comes whose time is this much after that of the segment's first.",
        "log.roll.ms",
        Synonym("log.roll.hours", HOUR_MS),
    ),
    _row(
        "segment.jitter.ms",
        SettingType.LONG,
        0,
        at_least(0),
        "Roll up to this much earlier than segment.ms, at random, so that many logs don't roll at once.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", HOUR_MS),
    ),
    _row(
        "segment.index.bytes",
        SettingType.INT,
        10 * MiB,
        at_least(4),
        "Roll when an index of this size is full.",
        "log.index.size.max.bytes",
    ),
    _row(
        "index.interval.bytes",
        SettingType.INT,
        4096,
        at_least(0),
        "Bytes of log between two index entries.",
        "log.index.interval.bytes",
    ),
    _row(
        "preallocate",
        SettingType.BOOLEAN,
        False,
        ANY,
        f"Make segment files at full size. {NEVER} Files grow.",
        "log.preallocate",
    ),
    # when it is forced to disk
    _row(
        "flush.messages",
        SettingType.LONG,
        LONG_MAX,
        at_least(1),
        "With kqueue.flush=kafka: flush when this many records are not flushed.",
        "log.flush.interval.messages",
    ),
    _row(
        "flush.ms",
        SettingType.LONG,
        LONG_MAX,
        at_least(0),
        "With kqueue.flush=kafka: flush this long after an append at the latest.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    # what may come in
    _row(
        "max.message.bytes",
        SettingType.INT,
        MiB + 12,
        at_least(0),
        "Largest batch that is taken, in bytes.",
        "message.max.bytes",
    ),
    _row(
        "message.timestamp.type",
        SettingType.STRING,
        "CreateTime",
        one_of("CreateTime", LOG_APPEND_TIME),
        "Whose time a record has: the producer's, or that of the append.",
        "log.message.timestamp.type",
    ),
    _row(
        "message.timestamp.before.max.ms",
        SettingType.LONG,
        LONG_MAX,
        at_least(0),
        "Refuse records whose time lies further back than this.",
        "log.message.timestamp.before.max.ms",
    ),
    _row(
        "message.timestamp.after.max.ms",
        SettingType.LONG,
        HOUR_MS,
        at_least(0),
        "Refuse records whose time lies further ahead than this.",
        "log.message.timestamp.after.max.ms",
    ),
    _row(
        "compression.type",
        SettingType.STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec of the stored batches; producer: as they come.",
        "compression.type",
    ),
    _row(
        "compression.gzip.level",
        SettingType.INT,
        -1,
        Validator("from 1 to 9, or -1", _gzip_level),
        "Level where the broker compresses with gzip.",
        "compression.gzip.level",
    ),
    _row(
        "compression.lz4.level",
        SettingType.INT,
        9,
        between(1, 17),
        "Level where the broker compresses with lz4.",
        "compression.lz4.level",
    ),
    _row(
        "compression.zstd.level",
        SettingType.INT,
        3,
        between(-131072, 22),
        "Level where the broker compresses with zstd.",
        "compression.zstd.level",
    ),
    _row(
        "kqueue.partitioner",
        SettingType.STRING,
        PARTITIONER_DEFAULT,
        Validator("the name of a partitioner", bool),
        "Which partitioner kqueue's own producers take, so that all agree where a key goes; other clients have "
        "settings of their own.",
    ),
    # what is kept
    _row(
        "cleanup.policy",
        SettingType.LIST,
        ["delete"],
        Validator("names of cleanup policies", _policies),
        "delete: drop old segments; compact: keep each key's last value, and demand keys; consumed: drop what the "
        "groups of "
        "kqueue.consumed.groups have consumed. Several may be named, those of plugins too.",
        "log.cleanup.policy",
    ),
    _row(
        "retention.ms",
        SettingType.LONG,
        7 * DAY_MS,
        at_least(-1),
        "With cleanup.policy=delete: drop segments whose records are all older; -1: never.",
        "log.retention.ms",
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
    ),
    _row(
        "retention.bytes",
        SettingType.LONG,
        -1,
        at_least(-1),
        "With cleanup.policy=delete: drop the oldest segments while the rest stays at or above this size; -1: no "
        "limit.",
        "log.retention.bytes",
    ),
    _row(
        "delete.retention.ms",
        SettingType.LONG,
        DAY_MS,
        at_least(0),
        "How long compaction keeps a tombstone, once it has met it.",
        "log.cleaner.delete.retention.ms",
    ),
    _row(
        "file.delete.delay.ms",
        SettingType.LONG,
        MINUTE_MS,
        at_least(0),
        "How long the files of dropped and rewritten segments stay under their .deleted names.",
        "log.segment.delete.delay.ms",
    ),
    _row(
        "min.cleanable.dirty.ratio",
        SettingType.DOUBLE,
        0.5,
        between(0, 1),
        "Compact when more than this share of the log is dirty, which is to say, not compacted yet.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _row(
        "min.compaction.lag.ms",
        SettingType.LONG,
        0,
        at_least(0),
        "Leave segments alone that have a record younger than this.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _row(
        "max.compaction.lag.ms",
        SettingType.LONG,
        LONG_MAX,
        at_least(1),
        "Compact records at the latest after this long, however little is dirty; segments of compacted topics end "
        "after it.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _row(
        "kqueue.consumed.groups",
        SettingType.LIST,
        [],
        ANY,
        "With cleanup.policy=consumed: drop sealed segments once all these groups have committed offsets beyond "
        "them. A group that "
        "has no offset holds everything; without any group named here nothing is dropped.",
    ),
    _row(
        "kqueue.records.validation",
        SettingType.STRING,
        "quick",
        one_of("header", "quick", "full"),
        "What is checked of a produced batch beside its header and checksum. quick: that it holds as many records "
        "as it counts, by the "
        "first and the last of them, or by the codec's frame where they are compressed. full: every record, as "
        "Kafka does. A compacted "
        "topic and one with message.timestamp.before.max.ms have every record read in any case.",
    ),
    # replicas
    _row(
        "min.insync.replicas",
        SettingType.INT,
        1,
        at_least(1),
        f"Replicas that must have a record before acks=all is answered. {NOT_YET} There is one replica.",
        "min.insync.replicas",
    ),
    _row(
        "unclean.leader.election.enable",
        SettingType.BOOLEAN,
        False,
        ANY,
        f"Let a replica lead that may lack records. {NOT_YET} There is one replica.",
        "unclean.leader.election.enable",
    ),
    _row(
        "leader.replication.throttled.replicas",
        SettingType.LIST,
        [],
        ANY,
        f"partition:broker pairs whose leader side is throttled. {NEVER}",
    ),
    _row(
        "follower.replication.throttled.replicas",
        SettingType.LIST,
        [],
        ANY,
        f"partition:broker pairs whose follower side is throttled. {NEVER}",
    ),
    # remote tiers
    _row(
        "remote.storage.enable",
        SettingType.BOOLEAN,
        False,
        Validator("false: there is no remote tier yet", lambda value: not value),
        "Copy closed segments to a remote tier. Kafka refuses it too where its remote tier is off.",
    ),
    _row(
        "remote.log.copy.disable",
        SettingType.BOOLEAN,
        False,
        ANY,
        f"Read from the remote tier, but copy nothing to it any more. {NOT_YET}",
    ),
    _row(
        "remote.log.delete.on.disable",
        SettingType.BOOLEAN,
        False,
        ANY,
        f"Drop the remote data when the remote tier is turned off. {NOT_YET}",
    ),
    _row(
        "local.retention.ms",
        SettingType.LONG,
        -2,
        at_least(-2),
        f"retention.ms of the local part where there is a remote one; -2: as retention.ms. {NOT_YET}",
        "log.local.retention.ms",
    ),
    _row(
        "local.retention.bytes",
        SettingType.LONG,
        -2,
        at_least(-2),
        f"retention.bytes of the local part where there is a remote one; -2: as retention.bytes. {NOT_YET}",
        "log.local.retention.bytes",
    ),
)
