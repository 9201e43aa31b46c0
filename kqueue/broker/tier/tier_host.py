"""What the parts of a broker's tiered storage share."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import KqueueError
from kqueue.base.rate_limiter import RateLimiter
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionHost
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.tier.partition_tier import PartitionTier
from kqueue.broker.tier.tier_pools import TierPool
from kqueue.broker.tier_config import (
    CACHE_BYTES,
    CACHE_FOLDER,
    COPIER_THREADS,
    EXPIRATION_THREADS,
    FOLLOWER_THREADS,
    INDEX_CACHE_BYTES,
    READER_THREADS,
)
from kqueue.broker.topics.topics import Topics
from kqueue.log.manager import LogManager
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.reader import TierReader
from kqueue.tier.stores.contract import TierStore

LOGGED_PER_SECOND = 0.2
LOGGED_BURST = 10
"""Lines about errors, for all partitions."""
AHEAD_THREADS = 2
AHEAD_QUEUED_MAX = 16
"""Chunks that are to be read ahead; what comes beyond is not read ahead."""
logger = logging.getLogger("kqueue.broker")


class TierHost:
    """The store, its readers and its threads. Thread: owner thread.

    Attributes:
        copies, manifests, follows, reads: pools of the jobs of each kind.
        states: by partition, of those that were looked at.
        is_ours: whether the tier is known to be that of this cluster; nothing is written before.
    """

    def __init__(
        self,
        config: Config,
        topics: Topics,
        logs: LogManager,
        partitions: PartitionHost,
        scheduler: Scheduler,
        store: TierStore,
        rng: random.Random,
    ) -> None:
        self.config, self.topics, self.logs, self.store = config, topics, logs, store
        self.partitions = partitions
        self.clock, self.purgatory, self.timers = scheduler.clock, scheduler.purgatory, scheduler.timers
        self.states: dict[Partition, PartitionTier] = {}
        self.is_ours = self._is_stopped = False
        self.scheduler = scheduler
        self._rng = rng
        self._lines = RateLimiter(LOGGED_PER_SECOND, scheduler.clock, LOGGED_BURST)

        def pool(kind: str, threads_max: Callable[[], int]) -> TierPool:
            return TierPool(scheduler.jobs, f"tier {kind}: {store.location}", threads_max)

        self.copies = pool("copies", lambda: int(config[COPIER_THREADS]))
        self.manifests = pool("manifests", lambda: int(config[EXPIRATION_THREADS]))
        self.follows = pool("follows", lambda: int(config[FOLLOWER_THREADS]))
        self.reads = pool("reads", lambda: int(config[READER_THREADS]))
        self._ahead = pool("ahead", lambda: AHEAD_THREADS)
        self.reader = TierReader(store, self._open_cache(config[CACHE_FOLDER], config[CACHE_BYTES]))
        self._bound_indexes()
        config.observe([INDEX_CACHE_BYTES], self._bound_indexes)

    def _open_cache(self, folder: str | None, size: int) -> ChunkCache:
        if folder is None:
            return ChunkCache(self.store, memory_bytes=size, run_later=self._read_ahead)
        return ChunkCache(self.store, folder=Path(folder), disk_bytes=size, run_later=self._read_ahead)

    def _bound_indexes(self) -> None:
        self.reader.index_bytes_max = min(self.config[INDEX_CACHE_BYTES], self.config[CACHE_BYTES])

    def state_of(self, partition: Partition) -> PartitionTier:
        """Return what is known of the tier's part of a partition, whose topic exists."""
        state = self.states.get(partition)
        if state is None:
            topic_id = self.topics.get(partition.topic).id
            state = self.states[partition] = PartitionTier(self.store, partition, topic_id)
        return state

    def object_id(self) -> str:
        """Return a random id of an object."""
        return f"{self._rng.getrandbits(128):032x}"

    def failed(self, state: PartitionTier, error: BaseException) -> None:
        """Log that a job for a partition failed."""
        if self.is_news(state, error):
            event = events.TIER_CORRUPT if isinstance(error, TierCorrupt) else events.TIER_FAILED
            event.log(
                logger,
                "%s-%d: the tier can't be written, trying again: %s",
                topic=state.partition.topic,
                partition=state.partition.index,
                error=str(error) or type(error).__name__,
                exc_info=None if isinstance(error, (KqueueError, FileNotFoundError)) else error,
            )

    def is_news(self, state: PartitionTier, error: BaseException) -> bool:
        """Whether to log an error of a partition: once for as often as it comes in a row.

        A store that is away fails all partitions, each with another key: some lines a minute do.
        """
        message = str(error)
        if message == state.logged or self._is_stopped or self._lines.wait_ms():
            return False
        self._lines.count()
        state.logged = message
        return True

    def stop(self) -> None:
        """Begin no more jobs, and close the store, which ends those that wait for it."""
        self._is_stopped = True
        for pool in (self.copies, self.manifests, self.follows, self.reads, self._ahead):
            pool.stop()
        self.store.close()

    def _read_ahead(self, run: Callable[[], object]) -> None:
        """Run a read of the cache later; called by any thread."""
        self.scheduler.wake(lambda: self._submit_ahead(run))

    def _submit_ahead(self, run: Callable[[], object]) -> None:
        if self._ahead.waiting < AHEAD_QUEUED_MAX:
            self._ahead.submit("read ahead in the tier", run, _ignore)


def _ignore(result: object, error: BaseException | None) -> None:
    pass
