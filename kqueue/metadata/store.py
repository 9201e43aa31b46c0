"""The contract of the metadata store: a small, durable map from text keys to bytes, changed by
guarded commits.

Calls block, so they run in jobs (`kqueue.base.jobs`), never on the owner thread; a store may be
called from several threads. A single broker needs a `MetadataStore`; the brokers of a cluster share
a `ClusterStore`, which also has their sessions, the controller's term, and the changes of others.

Plugins bring a `MetadataStore` under the entry-point group `kqueue.metadata`: a callable that takes
the data folder's path, which `kqueue.testing.check_metadata_store` tests. Whatever else one of them
raises, or returns, is made a StorageFailed with its name (`guard`).
`kqueue.testing.check_cluster_store` tests a `ClusterStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from kqueue.base.errors import NodeIdInUse, SessionLost

KEY_LENGTH_MAX = 1024
VALUE_SIZE_MAX = 1024 * 1024
COMMIT_SIZE_MAX = 4 * 1024 * 1024
"""The most bytes that the values of one commit have together; a `ClusterStore` may refuse a larger
one.
"""
NODE_ID_MAX = 2**31 - 1
INCARNATION_LENGTH_MAX = 255


class Entry(NamedTuple):
    """A value and its version, >= 1. A key never repeats a version, also not after a deletion."""

    value: bytes
    version: int


Snapshot = Mapping[str, Entry]


class MetadataStore(Protocol):
    """Keys are absolute paths (``/topics/orders``) of at most 1024 characters; values have up to 1
    MiB.
    """

    def read(self, prefix: str) -> Snapshot:
        """Return all entries whose key starts with `prefix`: a snapshot after all returned commits.

        Returns: full key -> entry, in order of keys.
        Raises: StorageFailed.
        """
        ...

    def commit(
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        """Apply all of `puts` and `deletes`, or nothing.

        Args:
            guards: for each key the version that it must have now, None where it must not exist;
                keys without a guard are changed unconditionally.
            deletes: keys to remove; a missing key is no error. No key is in both.
        Returns: the new version of every key in `puts`.
        Raises: Conflict: a guard does not hold, nothing was changed. StorageFailed: it is unknown
            whether anything changed: read again and compare. What that finds is final: the commit
            does not happen later. ValueError: a key or value breaks the limits.
        Durability: on return the change survives a power cut, where the store is durable at all.
        """
        ...

    def close(self) -> None:
        """Close files. A second call has no effect; all other calls then raise StorageFailed."""
        ...


class Changes(NamedTuple):
    """The changes of commits.

    Attributes:
        version: of the latest commit that is included; never lower than that of an earlier call.
        entries: the changed keys, in any order; None: deleted.
        complete: `entries` are all that the store has, and whatever else the caller knows is
            deleted. False: only the keys that changed.
    """

    version: int
    entries: Mapping[str, Entry | None]
    complete: bool


class SessionInfo(NamedTuple):
    """A live session. `epoch`: the broker epoch (BE). `incarnation`: as given to `register`."""

    epoch: int
    incarnation: str


class ControllerInfo(NamedTuple):
    """The holder of the controller's term. `epoch`: the term's."""

    node_id: int
    epoch: int


class Session(Protocol):
    """A broker's registration with the store: alive until its timeout passes without `keep_alive`.

    A session that was lost stays lost, whether or not anybody noticed: its calls raise SessionLost,
    and `ClusterStore.register` begins another one.
    """

    @property
    def node_id(self) -> int:
        """The broker's node id, as given to `register`."""
        ...

    @property
    def incarnation(self) -> str:
        """The process, as given to `register`."""
        ...

    @property
    def epoch(self) -> int:
        """The broker epoch (BE): higher than that of any earlier session of the store."""
        ...

    @property
    def timeout_ms(self) -> int:
        """The timeout that the store granted; call `keep_alive` every third of it."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it is known to have ended. Does not block, and never goes back to False.

        False does not promise anything: only a commit by the session tells.
        """
        ...

    def keep_alive(self) -> None:
        """Begin the timeout again.

        Raises: SessionLost: it has ended. StorageFailed: it is unknown; call again until `lost`.
        """
        ...

    def end(self) -> None:
        """End it, and the term that it holds, at once. A lost one stays as it is.

        Raises: StorageFailed: it may end by its timeout only.
        """
        ...


class Term(Protocol):
    """The controller's term, held by one session until that ends or resigns."""

    @property
    def epoch(self) -> int:
        """The term's epoch: higher than that of any earlier term of the store."""
        ...

    @property
    def session(self) -> Session:
        """The session that holds it."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it is known to have ended; as `Session.lost`."""
        ...

    def resign(self) -> None:
        """End it, so that others may campaign. A lost one stays as it is. Raises: StorageFailed."""
        ...


class ClusterStore(MetadataStore, Protocol):
    """A metadata store that the brokers of a cluster share.

    Each broker has an object of its own, or all share one (`MemoryStore`). Versions are the numbers
    of commits: one counter for all keys. `close` ends the sessions that began through the object.
    """

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        """As `MetadataStore.commit`, if `by`, which this object gave, is alive.

        The check and the change are one step: a commit by a lost session or term never happens,
        also if its process was paused between the two, and if all guards hold (rule 7).

        Raises: SessionLost: `by` has ended; nothing was changed. It goes before Conflict.
            ValueError: also where all values have more than COMMIT_SIZE_MAX bytes, if the store
            can't commit as many: split it.
        """
        ...

    def register(self, node_id: int, incarnation: str, timeout_ms: int) -> Session:
        """Begin a session of the broker with a new, higher broker epoch (rule 1).

        Args:
            node_id: >= 0.
            incarnation: a text of the calling process that no other one uses. A live session of the
                same node id and incarnation ends; its term too.
            timeout_ms: > 0; the store may grant another one, see `Session.timeout_ms`.
        Raises: NodeIdInUse: another incarnation is alive; the message names it. StorageFailed: it
            is unknown whether a session began; call again.
        Durability: the epoch survives a power cut, as commits do; sessions need not.
        """
        ...

    def sessions(self) -> Mapping[int, SessionInfo]:
        """Return the live sessions by node id, in order. Raises: StorageFailed."""
        ...

    def campaign(self, session: Session) -> Term | None:
        """Make the session the controller's, with a new, higher term epoch.

        A term that the session holds already ends by it.

        Returns: None: another live session holds the term.
        Raises: SessionLost: `session` has ended. StorageFailed: it is unknown whether the term
            began; campaign again.
        Durability: as `register`.
        """
        ...

    def controller(self) -> ControllerInfo | None:
        """Return who holds the term; None: no live session does. Raises: StorageFailed."""
        ...

    def changes(self, after: int) -> Changes:
        """Return every key that a commit after the version `after` changed, with its entry now.

        Args:
            after: `Changes.version` of an earlier call, or 0 for all entries.
        Returns: a complete snapshot where the store does not know any more what was deleted since
            `after`, where `after` is 0 or is no version of this store; it may be one at any time.
        Raises: StorageFailed.
        """
        ...

    def watch(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call `notify` soon after anything changed: keys, live sessions, or who is controller.

        One call may stand for several changes, the caller's own ones included, and may be in vain.

        Args:
            notify: called from any thread; it must return at once, and not call the store.
        Returns: ends the watch: `notify` is not called any more soon after. A second call has no
            effect, and the store's `close` ends all watches.
        Raises: StorageFailed.
        """
        ...


def check_commit(guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]) -> None:
    """Check the arguments of `commit`, for all stores. Raises: ValueError: with the key and the
    reason.
    """
    deletes = list(deletes)
    for key in (*guards, *puts, *deletes):
        if not key.startswith("/") or len(key) > KEY_LENGTH_MAX or "\0" in key:
            raise ValueError(
                f"a key starts with '/', holds no NUL and has at most {KEY_LENGTH_MAX} characters, found {key[:80]!r}"
            )
    for key, value in puts.items():
        if len(value) > VALUE_SIZE_MAX:
            raise ValueError(f"{key}: a value has at most {VALUE_SIZE_MAX} bytes, found {len(value)}")
    for key in deletes:
        if key in puts:
            raise ValueError(f"{key}: put and deleted in one commit")


def check_registration(node_id: int, incarnation: str, timeout_ms: int) -> None:
    """Check the arguments of `register`, for all stores. Raises: ValueError."""
    if not 0 <= node_id <= NODE_ID_MAX:
        raise ValueError(f"node id: expected 0 to {NODE_ID_MAX}, found {node_id}")
    if not 0 < len(incarnation) <= INCARNATION_LENGTH_MAX:
        raise ValueError(f"incarnation: expected 1 to {INCARNATION_LENGTH_MAX} characters, found {len(incarnation)}")
    if timeout_ms <= 0:
        raise ValueError(f"session timeout: expected more than 0 ms, found {timeout_ms}")


def node_id_in_use(node_id: int, session: SessionInfo) -> NodeIdInUse:
    """Return the error of `register`."""
    return NodeIdInUse(
        f"node id {node_id} is in use: the broker with incarnation {session.incarnation} "
        f"(broker epoch {session.epoch}) is alive; give each broker of the cluster its own node.id, or wait until its "
        "session has timed out"
    )


def session_lost(node_id: int, epoch: int, term_epoch: int | None = None) -> SessionLost:
    """Return the error of a call by a session, or by a term of it, that has ended."""
    if term_epoch is not None:
        return SessionLost(f"node {node_id} is not the controller any more: its term {term_epoch} has ended")
    return SessionLost(
        f"the session of node {node_id} with broker epoch {epoch} has ended: it was not kept alive in time, "
        "was ended, or a newer one has begun; register again"
    )


def check_guards(guards: Mapping[str, int | None], versions: Mapping[str, int]) -> str | None:
    """Return why the guards do not hold against the current `versions`; None if they hold."""
    for key, expected in guards.items():
        version = versions.get(key)
        if version != expected:
            return f"{key}: expected {_describe(expected)}, found {_describe(version)}"
    return None


def _describe(version: int | None) -> str:
    return "no entry" if version is None else f"version {version}"
