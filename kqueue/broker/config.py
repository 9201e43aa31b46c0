"""Settings of the broker, including those of logs, groups and transactions."""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import PluginError, SettingError
from kqueue.base.registry import Registry
from kqueue.base.settings import (
    ANY,
    GiB,
    MiB,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
    between,
    one_of,
)
from kqueue.base.version import KAFKA_VERSIONS
from kqueue.broker import tier_config
from kqueue.groups import config as group_config
from kqueue.log import config as log_config
from kqueue.metadata import METADATA_STORES
from kqueue.replication import config as replication_config
from kqueue.security import config as security_config
from kqueue.security import token_config
from kqueue.share import config as share_config
from kqueue.storage import STORAGES
from kqueue.transactions import config as transaction_config

NOT_EMPTY = Validator("not empty", bool)


def _is_registered(setting: str, registry: Registry[Any], value: str) -> bool:
    """Return whether `value` is registered or a module:callable path, which the start resolves.

    Raises:
        SettingError: no plugin has this name.
    """
    try:
        return bool(value) and (":" in value or registry.get(value) is not None)
    except PluginError as error:
        raise SettingError(f"{setting}={value}: {error}") from None


def _is_storage(value: str) -> bool:
    return _is_registered("kqueue.storage", STORAGES, value)


def _is_metadata_store(value: str) -> bool:
    return _is_registered("kqueue.metadata", METADATA_STORES, value)


MATCH_STATES_MAX = 100
"""Of one pattern of a client metrics subscription: 64 characters match in a millisecond."""
CLIENT_MATCH_KEYS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _are_matches(value: list[str]) -> bool:
    from kqueue.base.linear_regex import LinearRegex, PatternError  # on use: most brokers have none

    for item in value:
        key, equals, pattern = item.partition("=")
        if key.strip() not in CLIENT_MATCH_KEYS or not equals:
            return False
        try:
            LinearRegex(pattern, MATCH_STATES_MAX, java=True)
        except PatternError:
            return False
    return True


OWN_SETTINGS: tuple[Setting, ...] = (
    Setting("node.id", SettingType.INT, 1, at_least(0), Scope.BROKER, "Id of this broker in its cluster."),
    Setting(
        "broker.id",
        SettingType.INT,
        None,
        at_least(-1),
        Scope.BROKER,
        "Older name of node.id; used if node.id is not set.",
    ),
    Setting(
        "broker.rack", SettingType.STRING, None, ANY, Scope.BROKER, "Rack or zone of this broker, reported to clients."
    ),
    Setting(
        "kqueue.as.version",
        SettingType.STRING,
        None,
        one_of(*KAFKA_VERSIONS),
        Scope.BROKER,
        "Serve only the API versions of this Kafka version, and write the records of internal topics as it does, to "
        "test clients and tools against it. Unset: all that kqueue supports.",
    ),
    Setting(
        "kqueue.storage",
        SettingType.STRING,
        "local",
        Validator("local, memory, a plugin's name, or module:callable", _is_storage),
        Scope.BROKER,
        "Storage of logs. local: files under log.dirs; memory: lost at a stop; the name of a plugin; or "
        "module:callable, called for each of log.dirs.",
    ),
    Setting(
        "kqueue.metadata",
        SettingType.STRING,
        None,
        Validator("sqlite, memory, a plugin's name, or module:callable", _is_metadata_store),
        Scope.BROKER,
        "Storage of topic metadata. sqlite: a file in the first of log.dirs; memory: lost at a stop; the "
        "name of a plugin; or what module:callable opens. Unset: memory with kqueue.storage=memory, "
        "otherwise sqlite.",
    ),
    Setting(
        "log.dir",
        SettingType.LIST,
        ["kqueue-data"],
        NOT_EMPTY,
        Scope.BROKER,
        "Data folder; used if log.dirs is not set.",
    ),
    Setting(
        "log.dirs",
        SettingType.LIST,
        None,
        NOT_EMPTY,
        Scope.BROKER,
        "Data folders, comma separated. A new partition is created in the emptiest.",
    ),
    Setting(
        "num.recovery.threads.per.data.dir",
        SettingType.INT,
        2,
        at_least(1),
        Scope.BROKER,
        "Recoveries at once for each data folder after a crash. A process of low priority runs each, or a thread if "
        "there is little to read.",
    ),
    Setting(
        "num.partitions",
        SettingType.INT,
        1,
        at_least(1),
        Scope.BROKER,
        "Number of partitions of a topic that is created without one.",
    ),
    Setting(
        "default.replication.factor",
        SettingType.INT,
        1,
        at_least(1),
        Scope.BROKER,
        "Number of replicas of a new topic that names none.",
        cluster_only=True,
    ),
    Setting(
        "auto.create.topics.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        Scope.BROKER,
        "Create a topic when a client first requests its metadata.",
    ),
    Setting("delete.topic.enable", SettingType.BOOLEAN, True, ANY, Scope.BROKER, "Allow the deletion of topics."),
    Setting(
        "kqueue.max.partitions",
        SettingType.INT,
        100_000,
        at_least(1),
        Scope.BROKER,
        "Maximum number of partitions of all topics. A request for more is refused, so that no client "
        "can exhaust memory by creating topics.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "kqueue.max.decompressed.bytes",
        SettingType.INT,
        32 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Maximum size to which one batch may decompress when the broker reads its records. A larger "
        "batch, such as a decompression bomb, is refused.",
        dynamic=UpdateMode.CLUSTER_WIDE,
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.ms",
        SettingType.INT,
        20,
        at_least(1),
        Scope.BROKER,
        "Pause before the partitions of a Produce request are added to the transaction again, while the "
        "producer's last transaction is being completed.",
    ),
    Setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        SettingType.INT,
        100,
        at_least(0),
        Scope.BROKER,
        "Longest wait of a Produce request for the completion of the producer's last transaction. After "
        "it the producer has to repeat the request.",
    ),
    Setting(
        "fetch.max.bytes",
        SettingType.INT,
        55 * MiB,
        between(1024, 2 * GiB - 1),
        Scope.BROKER,
        "Maximum number of bytes of records in one Fetch response.",
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        SettingType.INT,
        1000,
        at_least(0),
        Scope.BROKER,
        "Maximum number of fetch sessions in memory. Above it the oldest idle ones are evicted.",
    ),
    Setting(
        "max.request.partition.size.limit",
        SettingType.INT,
        2000,
        at_least(1),
        Scope.BROKER,
        "Maximum number of partitions in one page of DescribeTopicPartitions.",
    ),
    Setting(
        "telemetry.max.bytes",
        SettingType.INT,
        1 * MiB,
        at_least(1),
        Scope.BROKER,
        "Maximum size of the compressed metrics that a client pushes at once.",
    ),
    Setting(
        "kqueue.client.metrics",
        SettingType.STRING,
        None,
        Validator("memory, or module:callable", lambda value: value == "memory" or ":" in value),
        Scope.BROKER,
        "What receives the metrics that clients push (KIP-714). memory: the last ones are kept for programs that "
        "embed the broker. Or module:callable, called with each push. Unset: clients are not asked for metrics.",
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms",
        SettingType.INT,
        60_000,
        at_least(1),
        Scope.BROKER,
        "Interval between writes of recovery points. Records after them are checked after a crash.",
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        SettingType.LONG,
        5_000,
        at_least(1),
        Scope.BROKER,
        "Interval between writes of high watermarks to disk.",
    ),
)

CLIENT_METRICS_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "metrics",
        SettingType.LIST,
        [],
        ANY,
        Scope.CLIENT_METRICS,
        "Prefixes of the names of metrics that clients send, comma separated; * is all. Empty: none.",
    ),
    Setting(
        "interval.ms",
        SettingType.INT,
        300_000,
        between(100, 3_600_000)._replace(
            refusal=lambda value: (
                f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            ),
            is_sentence=True,
        ),
        Scope.CLIENT_METRICS,
        "Interval at which clients send their metrics.",
    ),
    Setting(
        "match",
        SettingType.LIST,
        [],
        Validator(
            f"KEY=PATTERN, comma separated, with a KEY of {', '.join(CLIENT_MATCH_KEYS)}, "
            f"and a PATTERN of about {MATCH_STATES_MAX} characters, repetitions counted out",
            _are_matches,
            lambda value: f"Illegal client matching pattern: {','.join(value)[:200]}",
            is_sentence=True,
        ),
        Scope.CLIENT_METRICS,
        "Clients that send metrics: those for which all these patterns match. Empty: every client.",
    ),
)
"""Settings of client metrics subscriptions (KIP-714)."""

BACKLOG_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "kqueue.backlog.messages.max",
        SettingType.LONG,
        -1,
        at_least(-1),
        Scope.TOPIC,
        "Bound on the unread messages of the topic: log end offsets minus committed offsets of the slowest "
        "group, over all partitions. kqueue.backlog.action says what producers get beyond. -1: no bound.",
    ),
    Setting(
        "kqueue.backlog.bytes.max",
        SettingType.LONG,
        -1,
        at_least(-1),
        Scope.TOPIC,
        "Bound on the unread bytes of the topic, as kqueue.backlog.messages.max. -1: no bound.",
    ),
    Setting(
        "kqueue.backlog.action",
        SettingType.STRING,
        "refuse",
        one_of("refuse", "throttle"),
        Scope.TOPIC,
        "What producers get while the unread backlog has reached a bound. refuse: POLICY_VIOLATION, which "
        "clients do not retry. throttle: their records are accepted, and they wait after each request.",
    ),
    Setting(
        "kqueue.backlog.throttle.max.ms",
        SettingType.INT,
        1000,
        between(1, 60_000),
        Scope.TOPIC,
        "With kqueue.backlog.action=throttle: the longest wait of a producer, at twice the bound; in between "
        "it is proportional to the excess.",
    ),
    Setting(
        "kqueue.backlog.groups",
        SettingType.LIST,
        [],
        ANY,
        Scope.TOPIC,
        "Groups whose unread messages count for the backlog; one without a committed offset has read nothing. "
        "Empty: every group that has committed an offset for the partition; all records while none has.",
    ),
)

SETTINGS: tuple[Setting, ...] = (
    log_config.SETTINGS
    + group_config.SETTINGS
    + group_config.GROUP_SETTINGS
    + share_config.SETTINGS
    + share_config.GROUP_SETTINGS
    + transaction_config.SETTINGS
    + replication_config.SETTINGS
    + security_config.SETTINGS
    + token_config.SETTINGS
    + OWN_SETTINGS
    + BACKLOG_SETTINGS
    + tier_config.SETTINGS
    + CLIENT_METRICS_SETTINGS
)
"""All settings of the broker: of the log, the groups, the transactions, the replicas."""
