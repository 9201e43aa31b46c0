"""Settings that the broker reads, with those of logs and groups."""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import PluginError, SettingError
from kqueue.base.registry import Registry
from kqueue.base.settings import ANY, GiB, MiB, Scope, Setting, SettingType, Validator, at_least, between
from kqueue.groups import config as group_config
from kqueue.log import config as log_config
from kqueue.metadata import METADATA_STORES
from kqueue.storage import STORAGES

NOT_EMPTY = Validator("not empty", bool)


def _is_there(setting: str, registry: Registry[Any], value: str) -> bool:
    """Return whether the registry has `value`; a path is resolved at the start. Raises
    SettingError: no.
    """
    try:
        return bool(value) and (":" in value or registry.get(value) is not None)
    except PluginError as error:
        raise SettingError(f"{setting}={value}: {error}") from None


def _is_storage(value: str) -> bool:
    return _is_there("kqueue.storage", STORAGES, value)


def _is_metadata_store(value: str) -> bool:
    return _is_there("kqueue.metadata", METADATA_STORES, value)


OWN_SETTINGS: tuple[Setting, ...] = (
    Setting("node.id", SettingType.INT, 1, at_least(0), Scope.BROKER, "Number of this broker in its cluster."),
    Setting(
        "broker.id",
        SettingType.INT,
        None,
        at_least(-1),
        Scope.BROKER,
        "Older name of node.id; used where node.id is not set.",
    ),
    Setting(
        "broker.rack", SettingType.STRING, None, ANY, Scope.BROKER, "Rack or zone of this broker, told to clients."
    ),
    Setting(
        "kqueue.storage",
        SettingType.STRING,
        "local",
        Validator("local, memory, a plugin's name, or module:callable", _is_storage),
        Scope.BROKER,
        "Where logs are kept: local files under log.dirs; memory, which a stop forgets; a plugin's; or what "
        "module:callable makes of each of log.dirs.",
    ),
    Setting(
        "kqueue.metadata",
        SettingType.STRING,
        None,
        Validator("sqlite, memory, a plugin's name, or module:callable", _is_metadata_store),
        Scope.BROKER,
        "Where topics are kept: sqlite, a file in the first of log.dirs; memory, which a stop forgets; a plugin's; "
        "or what module:callable opens. Where it is not set: memory beside kqueue.storage=memory, else sqlite.",
    ),
    Setting(
        "log.dir",
        SettingType.LIST,
        ["kqueue-data"],
        NOT_EMPTY,
        Scope.BROKER,
        "Data folder; used where log.dirs is not set.",
    ),
    Setting(
        "log.dirs",
        SettingType.LIST,
        None,
        NOT_EMPTY,
        Scope.BROKER,
        "Data folders, comma separated; a new partition goes to the emptiest.",
    ),
    Setting(
        "num.partitions",
        SettingType.INT,
        1,
        at_least(1),
        Scope.BROKER,
        "Partitions of a topic that is created without a number.",
    ),
    Setting(
        "default.replication.factor",
        SettingType.INT,
        1,
        between(1, 1),
        Scope.BROKER,
        "Replicas of a new topic: one, on a single node.",
    ),
    Setting(
        "auto.create.topics.enable",
        SettingType.BOOLEAN,
        True,
        ANY,
        Scope.BROKER,
        "Create a topic when a client first asks for its metadata.",
    ),
    Setting("delete.topic.enable", SettingType.BOOLEAN, True, ANY, Scope.BROKER, "Allow topics to be deleted."),
    Setting(
        "kqueue.max.partitions",
        SettingType.INT,
        100_000,
        at_least(1),
        Scope.BROKER,
        "Partitions of all topics together; a request for more is refused, "
        "so that no client can exhaust memory by creating topics.",
    ),
    Setting(
        "kqueue.max.decompressed.bytes",
        SettingType.INT,
        32 * MiB,
        at_least(1024),
        Scope.BROKER,
        "Most bytes that one batch may decompress to, where the broker has to look at its records; "
        "a bomb is refused there.",
    ),
    Setting(
        "fetch.max.bytes",
        SettingType.INT,
        55 * MiB,
        between(1024, 2 * GiB - 1),
        Scope.BROKER,
        "Most bytes of records in one Fetch response.",
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        SettingType.INT,
        1000,
        at_least(0),
        Scope.BROKER,
        "Fetch sessions in memory; above that the oldest idle ones are evicted.",
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms",
        SettingType.INT,
        60_000,
        at_least(1),
        Scope.BROKER,
        "How often recovery points are written; records after them are checked after a crash.",
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        SettingType.LONG,
        5_000,
        at_least(1),
        Scope.BROKER,
        "How often high watermarks are written to disk.",
    ),
)

SETTINGS: tuple[Setting, ...] = log_config.SETTINGS + group_config.SETTINGS + OWN_SETTINGS
"""All settings of the broker and of the packages below it."""
