"""Brokers in simulation with a tier in memory, that fails or waits when a test says so."""

from __future__ import annotations

import contextlib
import itertools
import unittest.mock
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from kqueue.base.registry import BUILT_IN
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.tier import opening
from kqueue.broker.tier.partition_tier import PartitionTier
from kqueue.broker.tier.tier_host import TierHost
from kqueue.broker.tier.tier_manager import TierManager
from kqueue.broker.topics.topics import Topic
from kqueue.storage import Storage
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.fetch_client import one, request, values, want
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tier.stores.address import TIER_STORES
from kqueue.tier.stores.contract import Buffer, Object, ObjectEntry, TierStore, Version
from kqueue.tier.stores.memory import MemoryTierStore

S = TypeVar("S", bound=TierStore)
INTERVAL_MS = 1000
ON_DISK = {"kqueue.storage": "local"}
TIERED: dict[str, object] = {
    **ON_DISK,
    "remote.log.storage.system.enable": True,
    "remote.log.manager.task.interval.ms": INTERVAL_MS,
    "log.retention.check.interval.ms": INTERVAL_MS,
}


class FailingStore:
    """A store whose calls raise `error` while there is one; `calls` counts those of each method."""

    def __init__(self, store: TierStore) -> None:
        self.store = store
        self.error: Exception | None = None
        self.calls: list[str] = []

    @property
    def location(self) -> str:
        return self.store.location

    def _call(self, name: str) -> TierStore:
        self.calls.append(name)
        if self.error is not None:
            raise self.error
        return self.store

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        self._call("put").put(key, parts, size)

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        return self._call("put_if").put_if(key, body, expected)

    def get(self, key: str, *, max_bytes: int) -> Object:
        return self._call("get").get(key, max_bytes=max_bytes)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range").get_range(key, start, length)

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        return self._call("list").list(prefix)

    def list_folders(self, prefix: str) -> Sequence[str]:
        return self._call("list_folders").list_folders(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        self._call("delete").delete(keys)

    def close(self) -> None:
        pass


_NUMBERS = itertools.count()
STORES: dict[str, TierStore] = {}
"""The stores of tests, by the name in their URLs."""


@contextlib.contextmanager
def scheme_of_tests() -> Iterator[None]:
    """Let URLs of the scheme `tests` name the stores of tests in the block; no call is repeated, so
    that none waits.
    """
    with (
        unittest.mock.patch.object(opening, "with_retries", lambda store, clock, rng: store),
        TIER_STORES.added("tests", lambda url: STORES[url.removeprefix("tests://")], BUILT_IN),
    ):
        yield
    STORES.clear()


@contextlib.contextmanager
def tier_of_members(store: S) -> Iterator[S]:
    """Let the members of a test have this store at `tests://cluster`. Their ids of objects differ,
    though their random numbers do not.
    """
    numbers = itertools.count()

    def object_id(host: TierHost) -> str:
        return f"{next(numbers):032x}"

    with scheme_of_tests(), unittest.mock.patch.object(TierHost, "object_id", object_id):
        STORES["cluster"] = store
        yield store


class TieredClient(SimulatedClient):
    """A client of a broker with a tier; `store` outlives restarts."""

    def __init__(
        self,
        store: FailingStore | None = None,
        *,
        sim: Simulation | None = None,
        storage: Storage | None = None,
        seed: int = 0,
        **settings: object,
    ) -> None:
        self.store = store or FailingStore(MemoryTierStore(f"tests-{next(_NUMBERS)}"))
        name = str(id(self.store))
        STORES[name] = self.store
        own = {**TIERED, "kqueue.tier.url": f"tests://{name}", **settings}
        super().__init__(sim=sim or Simulation(own, storage=storage, seed=seed))

    @property
    def tier(self) -> TierManager:
        tier = self.sim.broker.tier
        assert tier is not None
        return tier

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        """Create a tiered topic with segments of two batches."""
        defaults = {"remote_storage_enable": "true", "segment_bytes": "200", "local_retention_bytes": "1"}
        return self.sim.topic(name, partitions, **{**defaults, "retention_bytes": "-1", **configs})

    def fill(self, count: int, topic: str = "t", partition: int = 0, start: int = 0) -> None:
        """Produce records v<offset>, one in each batch."""
        for number in range(start, start + count):
            records = batch(b"v%d" % number, time_ms=self.sim.clock.wall_ms())
            assert self.produce(topic, records, partition=partition).error_code == 0

    def tick(self, times: int = 2) -> None:
        """Let all be copied, and deleted here."""
        for _ in range(times):
            self.sim.advance(INTERVAL_MS)

    def state(self, partition: Partition) -> PartitionTier:
        return self.tier.host.state_of(partition)

    def read(self, offset: int, version: int = 11, **fields: Any) -> Any:
        """Return the answer to a fetch of partition 0 of topic t, as soon as it is there."""
        started = self.start(request(self, version, want(offset=offset), **fields), version)
        self.sim.settle()
        return started.response and one(started.response)

    def read_all(self, offset: int = 0, version: int = 11) -> list[bytes | None]:
        """Return all values from an offset on, fetch by fetch."""
        read: list[bytes | None] = []
        while records := values(self.read(offset + len(read), version)):
            read += records
        return read

    def objects(self, prefix: str = "topics") -> list[str]:
        """Return the keys of the objects in the tier."""
        return [entry.key for entry in self.store.store.list(prefix)]
