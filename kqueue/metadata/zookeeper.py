"""A metadata store in ZooKeeper, for brokers on several machines. Needs the extra `zookeeper`.

Setting it up. ZooKeeper 3.8 or newer, alone or as an ensemble (three servers outlive one, five
two); kqueue needs nothing of their configuration changed. The address is
``HOST:PORT[,HOST:PORT...][/CHROOT]``; the chroot is created if it is missing, so clusters share an
ensemble by chroots of their own. ZooKeeper grants session timeouts between 2 and 20 of its ticks
(`tickTime`, 2 s unless configured), that is 4 s to 40 s. Nothing but kqueue may write below
`<chroot>/kqueue`. With credentials, its user alone may use the nodes that it creates, those of the
chroot among them; without, everybody who reaches ZooKeeper may.

Limits. ZooKeeper takes requests of up to 1 MiB (`jute.maxbuffer`). A commit is one request; values
are compressed, and those that do not fit in are stored in parts first. What remains is the number
of keys: a commit of more than about 6,000 raises ValueError.

Durability. A commit is on the disks of a majority of the servers when it returns.

An answer that was lost. A commit that was sent, and whose connection then broke, may or may not
have happened. Each carries a random id, which `last` keeps: after reconnecting to any server, and
reading behind a barrier, the id is there, or it is not and the commit is tried again. Both compare
the same version of `last`, so one of them happens at most. Only if no server answers in time does
StorageFailed reach the caller. The next call of this object then rules the commit out, or finds it
in the entries: it does not happen later.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kqueue.base.addresses import parse_addresses
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import Conflict, SessionLost, SettingError, StorageFailed
from kqueue.base.extras import install_hint
from kqueue.metadata.store import (
    Changes,
    ControllerInfo,
    Entry,
    Session,
    SessionInfo,
    Snapshot,
    Term,
    check_commit,
    check_guards,
    check_registration,
    node_id_in_use,
    session_lost,
)
from kqueue.metadata.watchers import Watchers

try:
    import kazoo  # noqa: F401
except ImportError as error:
    raise SettingError(
        f"the metadata store 'zookeeper' needs the package kazoo ({error}); get it with: {install_hint('zookeeper')}"
    ) from error

from kqueue.metadata.zookeeper_client import (
    Operation,
    Rejected,
    Request,
    ZookeeperClient,
    ZookeeperCredentials,
    barrier,
    children,
    exists,
    get,
)
from kqueue.metadata.zookeeper_commits import Change, Committer, NodeMissing, retry
from kqueue.metadata.zookeeper_mirror import Mirror, MirroredEntry
from kqueue.metadata.zookeeper_nodes import Last, Layout, two_numbers
from kqueue.metadata.zookeeper_session import ZookeeperSession, ZookeeperTerm
from kqueue.metadata.zookeeper_tls import Wrap

DEFAULT_PORT = 2181
TICK_MS = 2000
"""Of ZooKeeper, by default."""
TIMEOUT_S = 10.0
"""Limit of a call while no server answers."""


def parse_zookeeper_address(text: str) -> tuple[str, str]:
    """Return the servers, ``host:port,host:port``, and the chroot, empty or ``/path``.

    Raises: ValueError: it is not ``HOST:PORT[,HOST:PORT...][/CHROOT]``.
    """
    servers, slash, path = text.partition("/")
    names = path.rstrip("/").split("/") if path.rstrip("/") else []
    is_reserved = names[:1] == ["zookeeper"]  # ZooKeeper's own
    if is_reserved or any(name in ("", ".", "..") or not name.isprintable() for name in names):
        raise ValueError(f"{slash + path!r} is no chroot; write /NAME or /NAME/NAME")
    return ",".join(map(str, parse_addresses(servers, DEFAULT_PORT))), "".join(f"/{name}" for name in names)


class ZookeeperStore:
    """Implements `ClusterStore`. The nodes that it needs are created if they are missing.

    Args:
        address: ``HOST:PORT[,HOST:PORT...][/CHROOT]``.
        credentials: user and password, for ZooKeeper's scheme `digest`; None: none.
        tls: encrypts connections to the servers; None: they are not encrypted.
        timeout_s: limit of each call while no server answers, in seconds; StorageFailed then.
    Raises: ValueError: no address. StorageFailed: no server answers in time, or the nodes are those
        of a newer kqueue.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = TIMEOUT_S,
        credentials: tuple[str, str] | None = None,
        tls: Wrap | None = None,
    ) -> None:
        self._servers, chroot = parse_zookeeper_address(address)
        self._layout = Layout(chroot)
        self._timeout_s = timeout_s
        self._credentials = None if credentials is None else ZookeeperCredentials(*credentials)
        self._lock = threading.RLock()
        self._closed = False
        self._watchers = Watchers()
        self._is_watching = False
        self._sessions: list[ZookeeperSession] = []
        self._time_in_calls = 0.0
        self._call_began = math.inf
        """When the call under the lock did; infinite: there is none."""
        # Its session owns nothing; its timeout bounds the search for a server that answers.
        self._tls = tls
        self._client = ZookeeperClient(
            self._servers, round(timeout_s * 600), credentials=self._credentials, tls=tls, connected=self._watch_again
        )
        self._mirror = Mirror(self._client, self._layout)
        self._committer = Committer(self._client, self._mirror, self._layout)
        deadline = monotonic_s() + timeout_s
        self._client.start(deadline)
        try:
            retry(deadline, lambda: self._create_nodes(deadline))
            retry(deadline, lambda: self._mirror.catch_up(deadline))
            deadline = monotonic_s() + timeout_s  # to read everything may have taken long
            retry(deadline, lambda: self._committer.delete_old_parts(deadline))
        except BaseException:
            self._client.close()
            raise

    # --- MetadataStore

    def read(self, prefix: str) -> Snapshot:
        with self._calling() as deadline:
            retry(deadline, lambda: self._mirror.catch_up(deadline))
            return self._mirror.read(prefix)

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        deletes = list(deletes)
        check_commit(guards, puts, deletes)
        values = {key: bytes(value) for key, value in puts.items()}
        id = _new_id()
        payloads, parts = self._committer.fit(values, deletes, id)
        pieces = {name: piece for named in parts.values() for name, piece in named.items()}
        with self._calling() as deadline:
            checks = _paths(by)

            def plan() -> Change:
                violation = check_guards(guards, self._mirror.versions(guards))
                if violation is not None:
                    raise Conflict(violation)
                last = self._mirror.last.after(id, (*values, *deletes))
                entries = {
                    key: MirroredEntry(Entry(value, last.number), tuple(parts.get(key, ())))
                    for key, value in values.items()
                }
                operations = self._committer.puts(last.number, payloads, deletes)
                return Change(checks, last, operations, entries, deletes)

            self._committer.store_parts(deadline, pieces)
            try:
                number = self._committer.commit(deadline, self._client, id, plan, fresh=False)
            except Conflict:
                self._committer.delete_parts(deadline, pieces)
                self._check_exists(deadline, checks, by)
                raise
            except NodeMissing as missing:
                self._committer.delete_parts(deadline, pieces)
                raise _lost(by, missing.path) from missing
            return dict.fromkeys(values, number)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._watchers.clear()
            sessions, self._sessions = self._sessions, []
            for session in sessions:
                session.close()
            for session in sessions:
                session.join()
            self._client.close()

    # --- ClusterStore

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> ZookeeperSession:
        check_registration(node_id, incarnation, timeout_ms)
        id = _new_id()
        with self._calling() as deadline:
            client = ZookeeperClient(
                self._servers, _asked_timeout_ms(timeout_ms), credentials=self._credentials, tls=self._tls
            )

            epochs: list[int] = []

            def plan() -> Change:
                last = self._mirror.last.after(id, (), broker_epochs=1)
                epochs.append(last.broker_epoch)
                operations = [Operation("delete", path) for path in self._replaced(deadline, node_id, incarnation)]
                path = self._layout.session(node_id, last.broker_epoch)
                operations.append(Operation("create ephemeral", path, incarnation.encode()))
                return Change([], last, operations)

            try:
                client.start(deadline)
                self._committer.commit(deadline, client, id, plan, fresh=True)
            except BaseException:
                client.close()
                raise
            epoch = epochs[-1]  # earlier plans did not happen
            for session in self._sessions:
                if session.node_id == node_id:
                    session.set_lost()
            path = self._layout.session(node_id, epoch)
            session = ZookeeperSession(
                client,
                path,
                SessionInfo(epoch, incarnation),
                node_id,
                timeout_s=self._timeout_s,
                clock=self._time_beside_calls,
            )
            self._sessions = [*(one for one in self._sessions if not one.lost), session]
            return session

    def sessions(self) -> Mapping[int, SessionInfo]:
        with self._calling() as deadline:
            retry(deadline, lambda: self._client.gather(deadline, [barrier(self._layout.last)]))
            return {node_id: session for node_id, session, _ in retry(deadline, lambda: self._live_sessions(deadline))}

    def campaign(self, session: Session) -> ZookeeperTerm | None:
        assert isinstance(session, ZookeeperSession), f"{session!r}: a session of another store"
        id = _new_id()
        with self._calling() as deadline:
            session.check_alive()
            epochs: list[int] = []

            def plan() -> Change:
                own = None if session.term is None else session.term.path
                names, stat = self._ask(deadline, children(self._layout.controller), exists(session.path))
                if stat is None:
                    raise NodeMissing(session.path)
                held = [f"{self._layout.controller}/{name}" for name in names or () if two_numbers(name)]
                if any(path != own for path in held):
                    raise _TermHeld
                last = self._mirror.last.after(id, (), controller_epochs=1)
                epochs.append(last.controller_epoch)
                operations = [Operation("delete", path) for path in held]
                path = self._layout.term(last.controller_epoch, session.node_id)
                return Change([session.path], last, [*operations, Operation("create ephemeral", path)])

            try:
                self._committer.commit(deadline, session.client, id, plan, fresh=True)
            except _TermHeld:
                return None
            except NodeMissing as missing:
                raise _lost(session, missing.path) from missing
            if session.term is not None:
                session.term.set_lost()
            path = self._layout.term(epochs[-1], session.node_id)
            session.term = ZookeeperTerm(session, path, epochs[-1], self._timeout_s)
            return session.term

    def controller(self) -> ControllerInfo | None:
        with self._calling() as deadline:
            _, names = self._ask(deadline, barrier(self._layout.last), children(self._layout.controller))
            terms = sorted(filter(None, map(two_numbers, names or ())))
            return ControllerInfo(terms[-1][1], terms[-1][0]) if terms else None

    def changes(self, after: int) -> Changes:
        with self._calling() as deadline:
            retry(deadline, lambda: self._mirror.catch_up(deadline))
            return self._mirror.changes(after)

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        with self._calling() as deadline:
            if not self._is_watching:
                self._is_watching = True  # first, so that a reconnection meanwhile sets them too
                self._ask(deadline, *self._watches().values())
            return self._watchers.add(notify)

    # --- watches; kazoo's threads call these, which must not wait

    def _watches(self) -> dict[str, Request]:
        """The requests that set ZooKeeper's watches, each of which tells of one change."""
        layout = self._layout
        return {
            layout.last: exists(layout.last, self._changed),
            layout.sessions: children(layout.sessions, self._changed),
            layout.controller: children(layout.controller, self._changed),
        }

    def _watch_again(self) -> None:
        """Set all watches: a connection takes those of the one before with it."""
        if self._is_watching:
            for request in self._watches().values():
                self._set_watch(request)

    def _changed(self, event: Any) -> None:
        """Set the watch again. Without a path the connection was lost, and another one follows."""
        if event.path in self._watches():
            self._set_watch(self._watches()[event.path])

    def _set_watch(self, request: Request) -> None:
        # Those who watch are called once the next change is watched: what is older, they then read.
        with contextlib.suppress(StorageFailed):  # not connected: the next connection sets it
            self._client.send(request, self._watchers.notify)

    # --- steps of the calls, under the lock

    @contextmanager
    def _calling(self) -> Iterator[float]:
        """Run a call under the lock, within the time limit. Yields: its end."""
        deadline = monotonic_s() + self._timeout_s
        if not self._lock.acquire(timeout=self._timeout_s):
            raise self._client.disconnected("an earlier call still waits")
        self._call_began = monotonic_s()
        try:
            if self._closed:
                raise StorageFailed("the metadata store is closed")
            yield deadline
        finally:
            self._time_in_calls += monotonic_s() - self._call_began
            self._call_began = math.inf
            self._lock.release()

    def _time_beside_calls(self) -> float:
        """A clock that stands still while a call of the store waits. Thread: any."""
        now = monotonic_s()
        return now - self._time_in_calls - max(now - self._call_began, 0)

    def _ask(self, deadline: float, *requests: Request) -> list[Any]:
        return retry(deadline, lambda: self._client.gather(deadline, requests))

    def _create_nodes(self, deadline: float) -> None:
        layout = self._layout
        (stat,) = self._client.gather(deadline, [exists(layout.last)])
        if stat is None:
            self._client.ensure(deadline, [layout.data, layout.parts, layout.sessions, layout.controller])
            with contextlib.suppress(Rejected):  # another broker was first
                self._client.transact(deadline, [Operation("create", layout.last, Last().to_bytes())])

    def _live_sessions(self, deadline: float) -> list[tuple[int, SessionInfo, str]]:
        """Return the node id, the session and the path of each, by node id."""
        (names,) = self._client.gather(deadline, [children(self._layout.sessions)])
        numbers = sorted(filter(None, map(two_numbers, names or ())))
        paths = [self._layout.session(*pair) for pair in numbers]
        nodes = self._client.gather(deadline, list(map(get, paths)))
        return [
            (node_id, SessionInfo(epoch, node.data.decode(errors="replace")), path)
            for (node_id, epoch), path, node in zip(numbers, paths, nodes, strict=True)
            if node is not None
        ]

    def _replaced(self, deadline: float, node_id: int, incarnation: str) -> list[str]:
        """Return the nodes of the node's live session and term, that its next session replaces.

        Raises: NodeIdInUse: it is of another incarnation.
        """
        replaced = []
        for id, session, path in retry(deadline, lambda: self._live_sessions(deadline)):
            if id == node_id:
                if session.incarnation != incarnation:
                    error = node_id_in_use(node_id, session)
                    error.may_have_ended = True
                    raise error
                replaced.append(path)
        if replaced:
            (names,) = self._ask(deadline, children(self._layout.controller))
            terms = {name: two_numbers(name) for name in names or ()}
            replaced += [
                f"{self._layout.controller}/{name}" for name, term in terms.items() if term and term[1] == node_id
            ]
        return replaced

    def _check_exists(self, deadline: float, checks: Sequence[str], by: Session | Term | None) -> None:
        """Raises: SessionLost: a node of the session or the term does not exist."""
        for path, stat in zip(checks, self._ask(deadline, *map(exists, checks)), strict=True):
            if stat is None:
                raise _lost(by, path)


class _TermHeld(Exception):
    """Another live session is the controller."""


def _asked_timeout_ms(timeout_ms: int) -> int:
    """Return the session timeout to ask for. ZooKeeper ends sessions up to one of its ticks late,
    and all that follow from it wait for that: the controller's, then a broker's fencing.
    """
    return timeout_ms - min(TICK_MS, timeout_ms // 4)


def _new_id() -> str:
    return secrets.token_hex(8)


def _paths(by: Session | Term | None) -> list[str]:
    """Return the nodes that exist while `by` is alive. Raises: SessionLost: it is known to have
    ended.
    """
    if by is None:
        return []
    assert isinstance(by, (ZookeeperSession, ZookeeperTerm)), f"{by!r}: a session of another store"
    by.check_alive()
    return [by.path] if isinstance(by, ZookeeperSession) else [by.session.path, by.path]


def _lost(by: Session | Term | None, path: str) -> SessionLost:
    """Note that the node at `path` of `by` is gone, and return the error."""
    assert isinstance(by, (ZookeeperSession, ZookeeperTerm))
    session = by if isinstance(by, ZookeeperSession) else by.session
    if path == session.path:
        session.set_lost()
        return session_lost(session.node_id, session.epoch)
    assert isinstance(by, ZookeeperTerm)
    by.set_lost()
    return session_lost(session.node_id, session.epoch, by.epoch)
