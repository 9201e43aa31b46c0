"""`cluster.aio`: the calls of an embedded cluster, for coroutines; see `aio`."""

from __future__ import annotations

from kqueue.embedded.aio import awaitable
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.cluster import Cluster


class AsyncCluster:
    """The calls of a cluster for coroutines: ``await cluster.aio.wait_in_sync()``.

    Arguments, results and errors are those of the calls of the same name of `Cluster`. A call that
    is cancelled goes on in its thread.
    """

    def __init__(self, owner: Cluster) -> None:
        self._owner = owner

    def __repr__(self) -> str:
        return f"<aio of {self._owner!r}>"

    start = awaitable(Cluster.start)
    stop = awaitable(Cluster.stop)
    restart = awaitable(Cluster.restart)
    kill = awaitable(Cluster.kill)
    pause = awaitable(Cluster.pause)
    resume = awaitable(Cluster.resume)
    partition = awaitable(Cluster.partition)
    heal = awaitable(Cluster.heal)
    restore = awaitable(Cluster.restore)
    reset = awaitable(Cluster.reset)
    create_topic = awaitable(Cluster.create_topic)
    load_records = awaitable(Cluster.load_records)
    records = awaitable(Cluster.records)
    assert_produced = awaitable(Cluster.assert_produced)
    elect = awaitable(Cluster.elect)
    reassign = awaitable(Cluster.reassign)
    wait_leader = awaitable(Cluster.wait_leader)
    wait_in_sync = awaitable(Cluster.wait_in_sync)
    advance = awaitable(BrokerClock.advance, "clock")
