"""Sessions and terms of the ZooKeeper store: ephemeral nodes of a connection of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kqueue.base.clock import monotonic_s, sleep
from kqueue.base.errors import StorageFailed
from kqueue.metadata.store import SessionInfo, session_lost
from kqueue.metadata.zookeeper_client import Operation, Rejected, ZookeeperClient, exists


class ZookeeperSession:
    """Implements `Session`. The store makes it, once its node exists.

    It ends when its session of ZooKeeper's expires: when the servers have not heard from the
    process for the timeout. kazoo pings them from a thread, also while the rest of the broker
    hangs; so a session whose `keep_alive` was not called for the timeout is closed here. The time
    that calls wait for ZooKeeper does not count: others wait behind them, and in an outage it is
    ZooKeeper that decides what becomes of the session.

    Attributes:
        path: of its node; no other session ever has the same.
    """

    def __init__(
        self,
        client: ZookeeperClient,
        path: str,
        info: SessionInfo,
        node_id: int,
        *,
        timeout_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.client = client
        self.path = path
        self.node_id = node_id
        self.epoch, self.incarnation = info
        self.timeout_ms = client.granted_ms
        self.term: ZookeeperTerm | None = None
        """The latest."""
        self._timeout_s = timeout_s
        self._clock = clock
        self._kept_alive_at = clock()
        self._is_store_closed = False
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._end_when_lost, name=f"zookeeper-session-{self.epoch}", daemon=True)
        self._thread.start()
        client.on_lost = self.set_lost

    @property
    def lost(self) -> bool:
        if not self._lost.is_set() and self._remaining_s() <= 0:
            self._lost.set()
        return self._lost.is_set()

    def keep_alive(self) -> None:
        if self._is_store_closed:
            raise StorageFailed("the metadata store is closed")
        self.check_alive()
        self._kept_alive_at = self._clock()
        limit_s = min(self._timeout_s, self.timeout_ms / 3000)
        try:
            (stat,) = self.client.gather(monotonic_s() + limit_s, [exists(self.path)])
        finally:
            self._kept_alive_at = self._clock()
        if stat is None:
            self.set_lost()
        self.check_alive()

    def end(self) -> None:
        if self.lost:
            return
        term = self.term
        nodes = [] if term is None or term.lost else [term.path]
        try:
            delete(self.client, [*nodes, self.path], monotonic_s() + self._timeout_s)
        finally:
            self.set_lost()
            self.join()

    def close(self) -> None:
        """End it with the store."""
        self._is_store_closed = True
        self.set_lost()

    def join(self) -> None:
        """Return once the connection of a session that has ended is closed."""
        self._thread.join()

    def set_lost(self) -> None:
        """Note that it has ended; a thread closes its connection. It does not wait."""
        self._lost.set()

    def check_alive(self) -> None:
        """Raises: SessionLost: it is known to have ended."""
        if self.lost:
            raise session_lost(self.node_id, self.epoch)

    def _remaining_s(self) -> float:
        return self._kept_alive_at + self.timeout_ms / 1000 - self._clock()

    def _end_when_lost(self) -> None:
        while not self.lost:
            self._lost.wait(max(self._remaining_s(), 0.001))
        self.client.close()


class ZookeeperTerm:
    """Implements `Term`. `path`: of its node; no other term ever has the same."""

    def __init__(self, session: ZookeeperSession, path: str, epoch: int, timeout_s: float) -> None:
        self.session = session
        self.path = path
        self.epoch = epoch
        self._timeout_s = timeout_s
        self._ended = False

    @property
    def lost(self) -> bool:
        return self._ended or self.session.lost

    def resign(self) -> None:
        if not self.lost:
            delete(self.session.client, [self.path], monotonic_s() + self._timeout_s)
            self._ended = True

    def set_lost(self) -> None:
        """Note that it has ended."""
        self._ended = True

    def check_alive(self) -> None:
        """Raises: SessionLost: it is known to have ended."""
        self.session.check_alive()
        if self._ended:
            raise session_lost(self.session.node_id, self.session.epoch, self.epoch)


def delete(client: ZookeeperClient, paths: list[str], deadline: float) -> None:
    """Delete nodes; one that is gone is no error. Raises: StorageFailed: that is unknown."""
    left = [Operation("delete", path) for path in paths]
    while left:
        try:
            client.transact(deadline, left)
            return
        except Rejected as rejected:
            del left[rejected.index]
        except StorageFailed:
            if monotonic_s() >= deadline:
                raise
            sleep(0.02)
