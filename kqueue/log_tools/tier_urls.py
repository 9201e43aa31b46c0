"""URLs of tiers, and of partitions in them, in place of folders.

    s3://bucket/prefix                  a tier: all topics, as a data folder
    s3://bucket/prefix/orders-0         one partition, as its folder

Of several topics of one name the newest one that is not deleted counts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from kqueue.base.clock import SystemClock
from kqueue.base.errors import StorageFailed
from kqueue.base.names import did_you_mean, parse_partition_folder, uuid_text
from kqueue.log_tools.errors import NotALogFolder
from kqueue.tier.catalog import TieredTopic, all_topics, read_tier_record, topic_names, topics_named
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierError
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.stores.address import location_of, open_store
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.retries import RetryingStore, RetryPolicy
from kqueue.tier.tier_storage import TierStorage

THREADS = 4
"""They fetch the next chunks while one is read."""
RETRIES = RetryPolicy(attempts_max=3)
"""Somebody waits in front of a terminal, and can call again."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://", re.ASCII)
_PATH_AND_OPTIONS = re.compile(r"(?P<tier>[^?#]*)/(?P<last>[^/?#]+)/?(?P<options>[?#].*)?\Z", re.ASCII | re.DOTALL)


class TierTarget(NamedTuple):
    """What a URL names.

    storage: of the partitions. partition: the folder of one of them; None: all are meant.
    topic_ids: those of the topics that are shown, 16 bytes, by name.
    """

    storage: TierStorage
    partition: str | None
    topic_ids: dict[str, bytes]

    @property
    def note(self) -> str:
        """Which topic of its name a partition is of, for people; empty: all are meant."""
        topic_id = next(iter(self.topic_ids.values())) if self.partition is not None else None
        return f"topic id {uuid_text(topic_id)}" if topic_id is not None else ""


def open_tier_store(url: str) -> TierStore:
    """Return the store of a URL, which repeats failed calls for some seconds.

    Raises: TierError: the URL is wrong. ExtraNeeded: the package of the store is missing.
    """
    return RetryingStore(open_store(url), RETRIES, clock=SystemClock(), rng=random.Random())


def is_url(path: str | Path) -> bool:
    """Return whether a path is a URL."""
    return isinstance(path, str) and _URL.match(path) is not None


def open_url(url: str, topics: Sequence[str] = ()) -> TierTarget:
    """Return the partitions that a URL names.

    Args: topics: of a whole tier, only these; one that is missing is no error. Empty: all.
    Raises:
        NotALogFolder: there is no tier, or no such partition.
        StorageFailed: the store can't be read, or the URL is wrong.
        ExtraNeeded: the package of the store is missing.
    """
    try:
        return _partition_of(url) or _whole_tier(open_tier_store(url), topics)
    except TierError as error:
        raise StorageFailed(str(error)) from error


def open_partition_url(url: str) -> TierTarget:
    """Return the one partition that a URL names. Raises: as `open_url`."""
    try:
        target = _partition_of(url)
    except TierError as error:
        raise StorageFailed(str(error)) from error
    if target is None:
        raise NotALogFolder(
            f"{location_of(url)} names no partition of a tier: expected topic and number at the end, such as orders-0"
        )
    return target


def _partition_of(url: str) -> TierTarget | None:
    """Return the partition that the URL names; None: its last part is no partition's."""
    parts = _PATH_AND_OPTIONS.match(url)
    named = parse_partition_folder(parts["last"]) if parts is not None else None
    if parts is None or named is None or parts["tier"].endswith((":", "/")):
        return None
    topic, number = named
    store = open_tier_store(parts["tier"] + (parts["options"] or ""))
    found = topics_named(store, topic)
    if not found:
        names = topic_names(store)
        if not names and read_tier_record(store) is None:
            return None  # no tier: the URL of a whole one may end so
        raise NotALogFolder(f"{store.location} has no topic {topic}{did_you_mean(topic, names)}")
    chosen = found[0]
    if number not in chosen.partitions:
        raise NotALogFolder(f"{store.location} has no partition {number} of topic {topic}, id {_id_of(chosen)}")
    return TierTarget(_storage_of(store, [chosen.partition(number)]), parts["last"], {chosen.topic: chosen.topic_id})


def _whole_tier(store: TierStore, names: Sequence[str]) -> TierTarget:
    chosen: dict[str, TieredTopic] = {}
    for topic in all_topics(store, names):
        if not topic.is_deleted:
            chosen.setdefault(topic.topic, topic)
    if not chosen and not topic_names(store) and read_tier_record(store) is None:
        raise NotALogFolder(f"{store.location} is no tier: it has neither kqueue-tier.json nor topics")
    partitions = [topic.partition(number) for topic in chosen.values() for number in topic.partitions]
    return TierTarget(_storage_of(store, partitions), None, {name: topic.topic_id for name, topic in chosen.items()})


def _storage_of(store: TierStore, partitions: Sequence[TieredPartition]) -> TierStorage:
    # Its threads end when nothing refers to the storage any more, or the process ends.
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="kqueue-tier")
    return TierStorage(store, ChunkCache(store, run_later=pool.submit), partitions)


def _id_of(topic: TieredTopic) -> str:
    return uuid_text(topic.topic_id)
