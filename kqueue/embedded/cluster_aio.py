"""`cluster.aio`: the calls of an embedded cluster, for coroutines; see `aio`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kqueue.embedded.aio import awaitable
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.cluster_records import ClusterRecordsMixin
from kqueue.embedded.cluster_topics import ClusterTopicsMixin
from kqueue.embedded.event_loops import run_in_thread


class AsyncCluster:
    """The calls of a cluster for coroutines: ``await cluster.aio.wait_in_sync()``.

    Arguments, results and errors are those of the calls of the same name of `Cluster`. A call that
    is cancelled goes on in its thread.
    """

    def __init__(self, owner: Any) -> None:
        """Args: owner: a `Cluster`, which imports this module."""
        self._owner = owner

    def __repr__(self) -> str:
        return f"<aio of {self._owner!r}>"

    async def start(self, broker: int | None = None) -> None:
        """See `Cluster.start`."""
        await run_in_thread(self._owner.start, broker)

    async def stop(self, broker: int | None = None) -> None:
        """See `Cluster.stop`."""
        await run_in_thread(self._owner.stop, broker)

    async def restart(self, broker: int) -> None:
        """See `Cluster.restart`."""
        await run_in_thread(self._owner.restart, broker)

    async def kill(self, *brokers: int) -> None:
        """See `Cluster.kill`."""
        await run_in_thread(self._owner.kill, *brokers)

    async def pause(self, broker: int) -> None:
        """See `Cluster.pause`."""
        await run_in_thread(self._owner.pause, broker)

    async def resume(self, broker: int) -> None:
        """See `Cluster.resume`."""
        await run_in_thread(self._owner.resume, broker)

    async def partition(self, *sides: Iterable[int], without_store: Iterable[int] = ()) -> None:
        """See `Cluster.partition`."""
        await run_in_thread(self._owner.partition, *sides, without_store=without_store)

    async def heal(self) -> None:
        """See `Cluster.heal`."""
        await run_in_thread(self._owner.heal)

    async def restore(self) -> None:
        """See `Cluster.restore`."""
        await run_in_thread(self._owner.restore)

    async def reset(self) -> None:
        """See `Cluster.reset`."""
        await run_in_thread(self._owner.reset)

    create_topic = awaitable(ClusterTopicsMixin.create_topic)
    elect = awaitable(ClusterTopicsMixin.elect)
    reassign = awaitable(ClusterTopicsMixin.reassign)
    wait_leader = awaitable(ClusterTopicsMixin.wait_leader)
    wait_in_sync = awaitable(ClusterTopicsMixin.wait_in_sync)
    load_records = awaitable(ClusterRecordsMixin.load_records)
    records = awaitable(ClusterRecordsMixin.records)
    assert_produced = awaitable(ClusterRecordsMixin.assert_produced)
    assert_consumed = awaitable(ClusterRecordsMixin.assert_consumed)
    advance = awaitable(BrokerClock.advance, "clock")
