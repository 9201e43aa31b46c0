"""A connection to ZooKeeper through kazoo: requests in a row, bounded time, one kind of error.

kazoo reconnects by itself, to any of the servers, and opens another session of ZooKeeper's if its
own has expired. A server does not let a client in that has seen later changes than itself; after
`REFUSALS_MAX` attempts it is asked as by a new client. So a broker learns that the servers' data
went back, which the mirror reports, instead of waiting for the data that it knew.

A request whose answer is lost raises Disconnected: whether it happened, or is still to happen, is
unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, ZnodeStat
from kazoo.security import make_digest_acl

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import StorageFailed
from kqueue.metadata.zookeeper_tls import TlsHandler, Wrap

RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.4, "max_delay": 1.0}
"""kazoo's pauses between attempts to connect, in seconds."""
REFUSALS_MAX = 10
"""Attempts to connect in a row: all servers of an ensemble were asked, some of them again."""
log = logging.getLogger(__name__)
_kazoo_log = logging.getLogger(f"{__name__}.kazoo")
_kazoo_log.setLevel(logging.ERROR)  # it warns on each attempt to connect; `_state_changed` says it once
_LOST_REQUESTS = (
    ConnectionClosedError,
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    KazooTimeoutError,
)
_REJECTIONS = (BadVersionError, NodeExistsError, NoNodeError)


class Disconnected(StorageFailed):
    """No answer: the request may have happened, or may happen later."""


class Rejected(Exception):
    """A transaction of which nothing happened, because the operation at `index` can't."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(f"operation {index}: {type(error).__name__}")
        self.index = index


class ZnodeContent(NamedTuple):
    """The data of a node, and its state."""

    data: bytes
    stat: ZnodeStat


class Operation(NamedTuple):
    """A step of a transaction: `check`, `set`, `create`, `create ephemeral` or `delete`.

    `version`: of the node, by ZooKeeper's count; -1: any. An operation on a missing node, and the
    creation of one that exists, is rejected.
    """

    kind: str
    path: str
    data: bytes = b""
    version: int = -1

    @property
    def size(self) -> int:
        """Bytes of it in the request, or a little more."""
        return len(self.path.encode()) + len(self.data) + 64


class ZookeeperCredentials(NamedTuple):
    """A user of ZooKeeper's scheme `digest`; `repr` does not show the password."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"<ZooKeeper user {self.user}>"


Acl = list[Any] | None
"""The ACL of a new node; None: everybody."""
_ADD: dict[str, Callable[[Any, Operation, Acl], None]] = {
    "check": lambda request, step, acl: request.check(step.path, step.version),
    "set": lambda request, step, acl: request.set_data(step.path, step.data, step.version),
    "create": lambda request, step, acl: request.create(step.path, step.data, acl),
    "create ephemeral": lambda request, step, acl: request.create(step.path, step.data, acl, ephemeral=True),
    "delete": lambda request, step, acl: request.delete(step.path, step.version),
}
Request = Callable[[KazooClient], Any]
"""Sends a request, and returns kazoo's promise."""


def get(path: str) -> Request:
    """A node: ZnodeContent, or None."""
    return lambda kazoo: kazoo.get_async(path)


def exists(path: str, watch: Callable[[Any], None] | None = None) -> Request:
    """A node's state: ZnodeStat, or None."""
    return lambda kazoo: kazoo.exists_async(path, watch)


def children(path: str, watch: Callable[[Any], None] | None = None) -> Request:
    """The names of the nodes below a node: list, or None where there is no such node."""
    return lambda kazoo: kazoo.get_children_async(path, watch)


def barrier(path: str) -> Request:
    """Later reads of this connection see all that was committed when this began.

    It is a transaction that changes nothing, so a majority of the servers orders it among the
    others. ZooKeeper's own `sync` promises less: the leader confirms commits through its followers
    a moment before it has them in its own nodes, and `sync` there waits for nothing.

    Args:
        path: of a node that exists.
    """

    def send(kazoo: KazooClient) -> Any:
        request = kazoo.transaction()
        request.check(path, -1)
        return request.commit_async()

    return send


class ZookeeperClient:
    """A connection, with a session of ZooKeeper's own. Thread: any.

    Args:
        servers: ``host:port,host:port``.
        session_timeout_ms: of the ephemeral nodes that it creates; also bounds the detection of a
            server that does not answer.
        credentials: of its user, who alone may use the nodes that it creates; None: everybody may.
        tls: encrypts its connections; None: they are not encrypted.
        connected: called by a thread of kazoo's after each connection; it must not wait.

    Attributes:
        connections: how many there were.
        granted_ms: the timeout that the servers granted, which have their own limits.
        on_lost: called likewise once a session has expired or was closed.
    """

    def __init__(
        self,
        servers: str,
        session_timeout_ms: int,
        *,
        credentials: ZookeeperCredentials | None = None,
        tls: Wrap | None = None,
        connected: Callable[[], None] | None = None,
    ) -> None:
        self.servers = servers
        self.granted_ms = session_timeout_ms
        self._on_connected = connected
        self.on_lost: Callable[[], None] | None = None
        self._acl: Acl = None if credentials is None else [make_digest_acl(*credentials, all=True)]
        self._tls = None if tls is None else TlsHandler(tls)
        self._kazoo = KazooClient(
            servers,
            handler=self._tls,
            timeout=session_timeout_ms / 1000,
            connection_retry=dict(RECONNECT),
            logger=_kazoo_log,
            default_acl=self._acl,
            auth_data=None if credentials is None else [("digest", ":".join(credentials))],
        )
        self._connected = Event()
        self.connections = 0
        self._was_connected = False
        self._closing = False
        self._refusals = 0
        self._wrap_connect()

    def start(self, deadline: float) -> None:
        """Connect. Raises: StorageFailed: not before the deadline, of `monotonic_s()`."""
        begin = monotonic_s()
        self._kazoo.add_listener(self._state_changed)
        self._kazoo.start_async()
        if not self._connected.wait(deadline - begin):
            self.close()
            if self._tls is not None and self._tls.failure:
                raise StorageFailed(
                    f"can't speak TLS with ZooKeeper at {self.servers}: {self._tls.failure}; check that its port is a "
                    "secureClientPort, and the settings zookeeper.ssl.*"
                )
            raise StorageFailed(
                f"can't reach ZooKeeper at {self.servers} within {deadline - begin:.1f} s: check that the addresses "
                "and ports are right (2181 unless configured otherwise), that the servers run, that a majority of "
                "them is up, and that no firewall is in between"
            )

    def close(self) -> None:
        """End the connection and its session; its ephemeral nodes go at once if it is connected."""
        self._closing = True
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except KazooException as error:
            events.ZOOKEEPER_CLOSE_FAILED.log(
                log, "ZooKeeper %s: the connection did not close cleanly: %s", servers=self.servers, error=error
            )

    def gather(self, deadline: float, requests: Sequence[Request]) -> list[Any]:
        """Send requests in a row, and return their answers. Raises: Disconnected, StorageFailed."""
        with self._failing():
            self._wait_connected(deadline)
            promises = [request(self._kazoo) for request in requests]
            return [_answer(promise, deadline) for promise in promises]

    def transact(self, deadline: float, operations: Sequence[Operation]) -> list[Any]:
        """Do all operations, or none, and return kazoo's results.

        Raises: Rejected: nothing was done. Disconnected: that is unknown. StorageFailed.
        """
        with self._failing():
            self._wait_connected(deadline)
            request = self._kazoo.transaction()
            for operation in operations:
                _ADD[operation.kind](request, operation, self._acl)
            results: list[Any] = request.commit_async().get(timeout=max(deadline - monotonic_s(), 0))
            for index, result in enumerate(results):
                if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                    if isinstance(result, _REJECTIONS):
                        raise Rejected(index, result)
                    raise result
            return results

    def ensure(self, deadline: float, paths: Sequence[str]) -> None:
        """Create nodes, and those above them, that do not exist yet. Raises: as `gather`."""
        self.gather(deadline, [lambda kazoo, path=path: kazoo.ensure_path_async(path) for path in paths])  # type: ignore[misc]

    def send(self, request: Request, done: Callable[[], None]) -> None:
        """Send a request without waiting; `done` is called by kazoo's thread if it was answered."""
        with self._failing():
            request(self._kazoo).rawlink(lambda promise: done() if promise.exception is None else None)

    def _wait_connected(self, deadline: float) -> None:
        if not self._connected.wait(max(deadline - monotonic_s(), 0)):
            raise self.disconnected("not connected")

    def disconnected(self, reason: str) -> Disconnected:
        """Return the error that says that no server answers, and what to check."""
        return Disconnected(
            f"ZooKeeper at {self.servers} does not answer ({reason}): check that a majority of its servers runs and "
            "can be reached"
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except _LOST_REQUESTS as error:
            raise self.disconnected(str(error) or type(error).__name__) from error
        except (NoAuthError, AuthFailedError) as error:
            raise StorageFailed(
                f"ZooKeeper at {self.servers} refused a request ({type(error).__name__}): its nodes belong to another "
                "user; check kqueue.zookeeper.user and kqueue.zookeeper.password"
            ) from error
        except KazooException as error:
            raise StorageFailed(
                f"ZooKeeper at {self.servers} refused a request: {type(error).__name__} {error}"
            ) from error

    def _state_changed(self, state: str) -> None:
        """Thread: kazoo's. It must not wait."""
        if state == KazooState.CONNECTED:
            if self._was_connected:
                events.ZOOKEEPER_CONNECTED.log(log, "ZooKeeper %s: connected again", servers=self.servers)
            self._was_connected = True
            self.connections += 1
            self._connected.set()
            if self._on_connected is not None:
                self._on_connected()
            return
        self._connected.clear()
        if not self._closing:
            what = "session has expired" if state == KazooState.LOST else "connection lost"
            events.ZOOKEEPER_LOST.log(log, "ZooKeeper %s: %s", servers=self.servers, what=what)
        if state == KazooState.LOST and self.on_lost is not None:
            self.on_lost()

    def _wrap_connect(self) -> None:
        """Keep what the servers granted, which kazoo computes and offers nowhere; and forget what
        the client has seen, where no server lets it in.
        """
        connection = self._kazoo._connection
        connect = connection._connect

        def noted(*arguments: Any) -> tuple[float, float]:
            self._refusals += 1
            if self._refusals > REFUSALS_MAX:
                self._kazoo.last_zxid = 0
            timeouts: tuple[float, float] = connect(*arguments)
            self._refusals = 0
            self.granted_ms = round(timeouts[0] * 1.5)  # two thirds of it is the limit of silence
            return timeouts

        connection._connect = noted


def _answer(promise: Any, deadline: float) -> Any:
    try:
        answer = promise.get(timeout=max(deadline - monotonic_s(), 0))
    except NoNodeError:
        return None
    return ZnodeContent(*answer) if isinstance(answer, tuple) and not isinstance(answer, ZnodeStat) else answer
