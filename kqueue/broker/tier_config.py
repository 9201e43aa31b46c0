"""Settings of tiered storage at broker level (KIP-405).

Source: Kafka's RemoteLogManagerConfig.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.settings import (
    ANY,
    LONG_MAX,
    GiB,
    MiB,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
)

SYSTEM_ENABLE = "remote.log.storage.system.enable"
TIER_URL = "kqueue.tier.url"
CACHE_BYTES = "kqueue.tier.cache.bytes"
CACHE_FOLDER = "kqueue.tier.cache.dir"
INDEX_CACHE_BYTES = "remote.log.index.file.cache.total.size.bytes"
TASK_INTERVAL_MS = "remote.log.manager.task.interval.ms"
COPIER_THREADS = "remote.log.manager.copier.thread.pool.size"
EXPIRATION_THREADS = "remote.log.manager.expiration.thread.pool.size"
FOLLOWER_THREADS = "remote.log.manager.follower.thread.pool.size"
READER_THREADS = "remote.log.reader.threads"
READER_QUEUE = "remote.log.reader.max.pending.tasks"
COPY_RATE = "remote.log.manager.copy.max.bytes.per.second"
FETCH_RATE = "remote.log.manager.fetch.max.bytes.per.second"
FETCH_WAIT_MS = "remote.fetch.max.wait.ms"
LIST_OFFSETS_WAIT_MS = "remote.list.offsets.request.timeout.ms"
FOLLOW_FROM_TIERED = "follower.fetch.last.tiered.offset.enable"


def _dynamic(name: str, kind: SettingType, default: Any, doc: str, valid: Validator | None = None) -> Setting:
    valid = at_least(1) if valid is None else valid
    return Setting(name, kind, default, valid, Scope.BROKER, doc, dynamic=UpdateMode.CLUSTER_WIDE)


SETTINGS: tuple[Setting, ...] = (
    Setting(
        SYSTEM_ENABLE,
        SettingType.BOOLEAN,
        False,
        ANY,
        Scope.BROKER,
        f"Allow topics with remote.storage.enable=true: their sealed segments are copied to the store of {TIER_URL}, "
        "deleted here after local.retention.*, and read from the store. It must be the same at all brokers of a "
        "cluster.",
    ),
    Setting(
        TIER_URL,
        SettingType.STRING,
        None,
        Validator(
            "a URL, such as s3://bucket/prefix, gs://, az://, file:///folder or memory://name",
            lambda url: "://" in url,
            shown=lambda url: url.partition("?")[0],  # the options may be secrets
        ),
        Scope.BROKER,
        "Object store of tiered topics: s3://bucket/prefix, gs://bucket/prefix or az://container/prefix (these need "
        "the extra `tiered`; credentials come from the environment), file:///folder, or memory://name. The brokers of "
        f"a cluster share one; two clusters never do. Needed with {SYSTEM_ENABLE}=true.",
    ),
    Setting(
        CACHE_BYTES,
        SettingType.LONG,
        64 * MiB,
        at_least(1 * MiB),
        Scope.BROKER,
        "Bytes of parts of segments that were read from the tier, or ahead of its readers, and are kept: in memory, or "
        f"in {CACHE_FOLDER}.",
    ),
    Setting(
        CACHE_FOLDER,
        SettingType.STRING,
        None,
        Validator("not empty", bool),
        Scope.BROKER,
        f"Folder for {CACHE_BYTES} of parts of segments that were read from the tier, outside of log.dirs and of no "
        "other broker; memory has the newest 32 MiB of them then. It is emptied at each start. Unset: memory only.",
    ),
    _dynamic(
        INDEX_CACHE_BYTES,
        SettingType.LONG,
        1 * GiB,
        f"Memory for indexes of segments in the tier, at most {CACHE_BYTES}. Kafka keeps them in files.",
    ),
    Setting(
        TASK_INTERVAL_MS,
        SettingType.LONG,
        30_000,
        at_least(1),
        Scope.BROKER,
        "Interval at which leaders copy sealed segments to the tier and delete expired ones there, and at which "
        "followers learn what was copied.",
    ),
    _dynamic(
        COPIER_THREADS,
        SettingType.INT,
        10,
        "Segments that the broker copies to the tier at the same time; at most background.threads.",
    ),
    _dynamic(
        EXPIRATION_THREADS,
        SettingType.INT,
        10,
        "Partitions whose expired segments the broker deletes in the tier at the same time.",
    ),
    _dynamic(
        FOLLOWER_THREADS,
        SettingType.INT,
        2,
        "Partitions for which the broker, as their follower, asks the tier at the same time what was copied.",
    ),
    _dynamic(
        READER_THREADS,
        SettingType.INT,
        10,
        "Reads of the tier for clients at the same time; at most background.threads.",
    ),
    Setting(
        READER_QUEUE,
        SettingType.INT,
        100,
        at_least(1),
        Scope.BROKER,
        f"Reads of the tier for clients that wait for one of {READER_THREADS}. Beyond it fetches get no records of the "
        "tier, and ask again.",
    ),
    _dynamic(COPY_RATE, SettingType.LONG, LONG_MAX, "Maximum rate in bytes per second of copies to the tier."),
    _dynamic(
        FETCH_RATE,
        SettingType.LONG,
        LONG_MAX,
        "Maximum rate in bytes per second of reads of the tier for clients. Beyond it fetches get no records of the "
        "tier, and ask again.",
    ),
    _dynamic(
        FETCH_WAIT_MS,
        SettingType.INT,
        500,
        "Longest wait of a fetch for records of the tier. After it the fetch gets none, and the next one finds what "
        "was read meanwhile.",
    ),
    _dynamic(
        LIST_OFFSETS_WAIT_MS,
        SettingType.LONG,
        30_000,
        "Longest wait of a look-up of an offset by time in the tier.",
    ),
    _dynamic(
        FOLLOW_FROM_TIERED,
        SettingType.BOOLEAN,
        False,
        "Whether a follower whose log is empty begins at the first offset that is not in the tier, in place of its "
        "leader's local log start (KIP-1023).",
        ANY,
    ),
)
