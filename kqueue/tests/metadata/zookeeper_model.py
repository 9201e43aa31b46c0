"""ZooKeeper in memory, below kazoo's client: what its servers do with nodes, and connections that
break at a chosen request. `compat_tests/zookeeper` holds the same store to the real one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Transaction,
)
from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent, ZnodeStat

from kqueue.metadata import zookeeper_client
from kqueue.metadata.zookeeper import ZookeeperStore

REQUEST_SIZE_MAX = 0xFFFFF
EPHEMERAL = 1
REFUSALS = (BadVersionError, NodeExistsError, NoNodeError)


class ModelNode(NamedTuple):
    """A node; `owner`: the session of an ephemeral one, 0 for others."""

    data: bytes
    version: int
    created: int
    changed: int
    created_ms: int
    owner: int


class ModelServer:
    """The nodes, and the clients that are connected.

    Attributes:
        requests: how many were sent, transactions and reads.
        fault: called with the number of each request and with the request; what it returns breaks
            the connection: "before" the request happens, or "after" it; None does not.
        now_ms: the time that new nodes get.
        down: no client can connect.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.nodes = {"/": ModelNode(b"", 0, 0, 0, 0, 0)}
        self.zxid = 0
        self.requests = 0
        self.transactions = 0
        self.fault: Callable[[int, Any], str | None] = lambda number, request: None
        self.now_ms = 10**15
        self.down = False
        self.clients: list[ModelKazoo] = []
        self.sessions = 0

    def expire(self, client: ModelKazoo) -> None:
        """End a client's session; it opens another one, as kazoo does."""
        with self.lock:
            self.end_session(client.session)
            client.new_session()
        client._session_callback(KeeperState.EXPIRED_SESSION)
        client._session_callback(KeeperState.CONNECTING)
        client._session_callback(KeeperState.CONNECTED)

    def stop(self) -> None:
        self.down = True
        for client in list(self.clients):
            client._session_callback(KeeperState.CONNECTING)

    def start(self) -> None:
        self.down = False
        for client in list(self.clients):
            client._session_callback(KeeperState.CONNECTED)

    def end_session(self, session: int) -> None:
        with self.lock:
            for path in [path for path, node in self.nodes.items() if node.owner == session]:
                self.zxid += 1
                self._apply(Delete(path, -1), session, {})

    def answer(self, request: Any, client: ModelKazoo) -> Any:
        """What the request returns, or raises."""
        match request:
            case Transaction():
                assert len(request.serialize()) <= REQUEST_SIZE_MAX, "the server would close the connection"
                self.transactions += 1
                return self._transact(request.operations, client.session)
            case GetData(path=path):
                if path not in self.nodes:
                    raise NoNodeError
                return self.nodes[path].data, self._stat(path)
            case Exists(path=path):
                return self._stat(path) if path in self.nodes else None
            case GetChildren(path=path):
                if path not in self.nodes:
                    raise NoNodeError
                return self._names(path)
            case Create():
                self.zxid += 1
                self._apply(request, client.session, {})
                return request.path
        raise AssertionError(f"not in the model: {request}")

    def _transact(self, operations: list[Any], session: int) -> list[Any]:
        before, undo = self.zxid, dict(self.nodes)
        events: dict[tuple[str, str], str] = {}
        self.zxid += 1
        results: list[Any] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, session, events))
            except REFUSALS as error:
                self.nodes, self.zxid = undo, before
                behind = len(operations) - index - 1
                return [*(RolledBackError() for _ in range(index)), error, *(RuntimeInconsistency(),) * behind]
        self._fire(events)
        return results

    def _apply(self, operation: Any, session: int, events: dict[tuple[str, str], str]) -> Any:
        path = operation.path
        parent = path.rpartition("/")[0] or "/"
        single = not events and isinstance(operation, (Create, Delete))
        node = self.nodes.get(path)
        if isinstance(operation, Create):
            if node is not None:
                raise NodeExistsError
            if parent not in self.nodes:
                raise NoNodeError
            owner = session if operation.flags & EPHEMERAL else 0
            self.nodes[path] = ModelNode(operation.data, 0, self.zxid, self.zxid, self.now_ms, owner)
            events |= {("data", path): EventType.CREATED, ("child", parent): EventType.CHILD}
            result: Any = path
        else:
            if node is None:
                raise NoNodeError
            if operation.version not in (-1, node.version):
                raise BadVersionError
            result = True
            if isinstance(operation, Delete):
                del self.nodes[path]
                events |= {("data", path): EventType.DELETED, ("child", parent): EventType.CHILD}
            elif isinstance(operation, SetData):
                self.nodes[path] = node._replace(data=operation.data, version=node.version + 1, changed=self.zxid)
                events[("data", path)] = EventType.CHANGED
                result = self._stat(path)
            else:
                assert isinstance(operation, CheckVersion)
        if single and session is not None:
            self._fire(dict(events))
            events.clear()
        return result

    def _fire(self, events: dict[tuple[str, str], str]) -> None:
        for (kind, path), type in events.items():
            for client in self.clients:
                watchers = client._data_watchers if kind == "data" else client._child_watchers
                for watcher in watchers.pop(path, ()):
                    event = WatchedEvent(type, client._state, path)
                    client.handler.dispatch_callback(Callback("watch", watcher, (event,)))

    def _names(self, path: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self.nodes if name != "/" and name.rpartition("/")[0] == path]

    def _stat(self, path: str) -> ZnodeStat:
        node = self.nodes[path]
        times = (node.created_ms, node.created_ms)
        return ZnodeStat(
            node.created, node.changed, *times, node.version, 0, 0, node.owner, len(node.data), 0, node.created
        )


class ModelKazoo(KazooClient):
    """kazoo's client, with the model in the place of a connection."""

    server: ModelServer

    def start_async(self) -> Any:
        self.new_session()
        self.handler.start()
        self._stopped.clear()
        self.server.clients.append(self)
        self._session_callback(KeeperState.CONNECTING)
        if not self.server.down:
            self._session_callback(KeeperState.CONNECTED)
        return self._live

    def new_session(self) -> None:
        with self.server.lock:
            self.server.sessions += 1
            self.session = self.server.sessions

    def stop(self) -> None:
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.server.clients.remove(self)
        if not self.server.down:
            self.server.end_session(self.session)
        self._session_callback(KeeperState.CLOSED)
        self.handler.stop()

    def close(self) -> None:
        pass

    def _call(self, request: Any, promise: Any) -> None:
        with self.server.lock:
            if self._stopped.is_set() or self.server.down:
                promise.set_exception(SessionExpiredError() if self._stopped.is_set() else ConnectionLoss())
                return
            self.server.requests += 1
            fault = self.server.fault(self.server.requests, request)
            answer: Any = ConnectionLoss()
            if fault != "before":
                try:
                    answer = self.server.answer(request, self)
                except REFUSALS as error:
                    answer = error
            if fault is None:
                self._answer(request, promise, answer)
                return
        promise.set_exception(ConnectionLoss())
        self._session_callback(KeeperState.CONNECTING)
        self._session_callback(KeeperState.CONNECTED)

    def _answer(self, request: Any, promise: Any, answer: Any) -> None:
        watcher = getattr(request, "watcher", None)
        if watcher and not isinstance(answer, Exception):
            watchers = self._child_watchers if isinstance(request, GetChildren) else self._data_watchers
            watchers[request.path].add(watcher)
        if isinstance(answer, Exception):
            promise.set_exception(answer)
        else:
            promise.set(answer)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    """A server; every `ZookeeperClient` of the test is its client."""
    model = ModelServer()
    monkeypatch.setattr(zookeeper_client, "KazooClient", type("Kazoo", (ModelKazoo,), {"server": model}))
    return model


def open_store(chroot: str = "/cluster", timeout_s: float = 20.0) -> ZookeeperStore:
    return ZookeeperStore(f"model:2181{chroot}", timeout_s=timeout_s)
