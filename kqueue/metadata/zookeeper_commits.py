"""Commits of the ZooKeeper store: one transaction that compares `last`, tried until its outcome is
known.

An attempt plans its change from the mirror and expects the version of `last` that the mirror has:

    it happened              the commit is done
    rejected at `last`       another commit was first: catch up, plan again
    the connection broke     it may have happened, or may happen yet: catch up, which gives `last`
                             another version and so rules out the latter; then the history of
                             `last` tells, and the next attempt can't be the second of two
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kqueue.base.clock import monotonic_s, sleep, wall_ms
from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.zookeeper_client import (
    Disconnected,
    Operation,
    Rejected,
    ZookeeperClient,
    children,
    exists,
)
from kqueue.metadata.zookeeper_mirror import Mirror, MirroredEntry
from kqueue.metadata.zookeeper_nodes import HISTORY_SIZE_MAX, Last, Layout, Payload

REQUEST_SIZE_MAX = 1_040_000
"""Of a transaction, in bytes; ZooKeeper takes 1 MiB less one byte."""
FIT_SIZE_MAX = 1_000_000
"""Of the puts and deletes in it; the rest is for parts that it deletes."""
IN_PARTS_FROM = 512
"""A shorter value is never stored in parts."""
PART_AGE_MIN_S = 24 * 3600
"""At this age parts that belong to no entry are deleted: a commit that was cut short left them."""
REJECTIONS_MAX = 5
RETRY_PAUSE_S = 0.02
_T = TypeVar("_T")


class NodeMissing(Exception):
    """A node that the transaction needs does not exist; nothing was changed."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Change(NamedTuple):
    """The changes of one transaction.

    Attributes:
        checks: nodes that have to exist.
        last: what the node `last` holds afterwards.
        operations: on other nodes.
        puts: the entries that it changes.
        deletes: keys.
    """

    checks: Sequence[str]
    last: Last
    operations: Sequence[Operation]
    puts: Mapping[str, MirroredEntry] = {}
    deletes: Sequence[str] = ()


class Committer:
    """Commits, for one mirror. Thread: one at a time."""

    def __init__(self, client: ZookeeperClient, mirror: Mirror, layout: Layout) -> None:
        self._client = client
        self._mirror = mirror
        self._layout = layout

    def commit(
        self, deadline: float, client: ZookeeperClient, id: str, plan: Callable[[], Change], *, fresh: bool
    ) -> int:
        """Do what `plan` returns, and return the number of the commit.

        Args:
            client: the connection that creates ephemeral nodes.
            id: the commit's, which `last` of each change has in its history.
            plan: computes the change from the mirror; called again after each attempt that did not
                happen. What it raises is raised here.
            fresh: the mirror is brought up to date before the first plan; otherwise a Conflict of
                the first plan brings it up to date, too.
        Raises: NodeMissing, ValueError: nothing was changed. StorageFailed.
        """
        attempted: int | None = None
        rejections = 0
        while True:
            if fresh or not self._mirror.is_of_this_connection:
                retry(deadline, lambda: self._mirror.catch_up(deadline))
                number = None if attempted is None else self._number_of(id, attempted)
                if number is not None:
                    return number
            try:
                change = plan()
            except Conflict:
                if fresh:
                    raise
                fresh = True
                continue
            attempted, version = self._mirror.last.number, self._mirror.last_version
            operations = self._operations(change, version)
            fresh = True
            try:
                results = client.transact(deadline, operations)
            except Rejected as rejected:
                at = rejected.index - len(change.checks)
                if at < 0:
                    raise NodeMissing(change.checks[rejected.index]) from rejected
                if at > 0:  # not by a commit: that would have changed `last`
                    rejections += 1
                    self._mirror.reset()
                    if rejections > REJECTIONS_MAX:
                        raise StorageFailed(
                            f"ZooKeeper's node {operations[rejected.index].path} is changed by others ({rejected}): "
                            "nothing but kqueue may write there"
                        ) from rejected
            except Disconnected:
                self._mirror.unsettled = version
                if monotonic_s() >= deadline:
                    raise
                sleep(RETRY_PAUSE_S)
            else:
                stat = results[len(change.checks)]
                self._mirror.committed(change.last, stat, change.puts, change.deletes)
                return change.last.number

    def _number_of(self, id: str, attempted: int) -> int | None:
        """Return the number of the commit that was attempted on top of `attempted`; None: it did
        not happen, and can't happen any more.
        """
        last = self._mirror.last
        number = last.number_of(id)
        if number is None and last.number != attempted and attempted < last.history[0].number - 1:
            raise StorageFailed(
                "it is unknown whether a commit to ZooKeeper happened: its answer was lost, and "
                f"{last.number - attempted} commits have followed since"
            )
        return number

    def _operations(self, change: Change, version: int) -> list[Operation]:
        operations = [Operation("check", path) for path in change.checks]
        operations.append(Operation("set", self._layout.last, change.last.to_bytes(), version))
        operations += change.operations
        size = sum(operation.size for operation in operations)
        if size > REQUEST_SIZE_MAX:
            raise _too_large(len(change.puts) + len(change.deletes), size)
        return operations

    # --- values

    def puts(self, number: int, payloads: Mapping[str, Payload], deletes: Iterable[str]) -> list[Operation]:
        """Return the operations that store these values, and delete others with their parts."""
        operations = []
        for key, payload in payloads.items():
            kind = "set" if key in self._mirror else "create"
            operations.append(Operation(kind, self._layout.key(key), payload.to_bytes(number)))
        gone = [key for key in dict.fromkeys(deletes) if key in self._mirror]
        operations += [Operation("delete", self._layout.key(key)) for key in gone]
        operations += [
            Operation("delete", self._layout.part(name))
            for key in (*payloads, *gone)
            for name in self._mirror.parts(key)
        ]
        return operations

    def fit(
        self, values: Mapping[str, bytes], deletes: Sequence[str], id: str
    ) -> tuple[dict[str, Payload], dict[str, dict[str, bytes]]]:
        """Return the payload of each value, and by key the parts, by name, of those that do not fit
        into one transaction.

        Raises: ValueError: too many keys.
        """
        payloads = {key: Payload.of(value) for key, value in values.items()}
        parts: dict[str, dict[str, bytes]] = {}
        size = HISTORY_SIZE_MAX + sum(self._size(key, payload) for key, payload in payloads.items())
        size += sum(Operation("delete", self._layout.key(key)).size for key in deletes)
        for key in sorted(payloads, key=lambda key: len(payloads[key].content), reverse=True):
            if size <= FIT_SIZE_MAX or len(payloads[key].content) < IN_PARTS_FROM:
                break
            size -= self._size(key, payloads[key])
            payloads[key], parts[key] = Payload.in_parts(payloads[key], f"{id}-{len(parts)}")
            size += self._size(key, payloads[key])
        if size > FIT_SIZE_MAX:
            raise _too_large(len(values) + len(deletes), size)
        return payloads, parts

    def _size(self, key: str, payload: Payload) -> int:
        return Operation("set", self._layout.key(key), payload.content).size + 21

    def store_parts(self, deadline: float, pieces: Mapping[str, bytes]) -> None:
        """Store parts that no entry names yet. Raises: StorageFailed."""
        for name, piece in pieces.items():
            step = Operation("create", self._layout.part(name), piece)
            with contextlib.suppress(Rejected):  # an attempt whose answer was lost has stored it
                retry(deadline, lambda step=step: self._client.transact(deadline, [step]))  # type: ignore[misc]

    def delete_parts(self, deadline: float, names: Iterable[str]) -> None:
        """Delete parts that no entry names, as far as that is possible now."""
        for name in names:
            with contextlib.suppress(Rejected, StorageFailed):
                self._client.transact(deadline, [Operation("delete", self._layout.part(name))])

    def delete_old_parts(self, deadline: float) -> None:
        """Delete parts of commits that were cut short. Raises: StorageFailed."""
        (names,) = self._client.gather(deadline, [children(self._layout.parts)])
        left = sorted(set(names or ()) - self._mirror.all_parts())
        states = self._client.gather(deadline, [exists(self._layout.part(name)) for name in left])
        limit_ms = wall_ms() - PART_AGE_MIN_S * 1000
        old = [name for name, stat in zip(left, states, strict=True) if stat is not None and stat.ctime < limit_ms]
        self.delete_parts(deadline, old)


def retry(deadline: float, action: Callable[[], _T]) -> _T:
    """Call until it is answered. Raises: Disconnected: not before the deadline."""
    while True:
        try:
            return action()
        except Disconnected:
            if monotonic_s() >= deadline:
                raise
            sleep(RETRY_PAUSE_S)


def _too_large(keys: int, size: int) -> ValueError:
    return ValueError(
        f"a commit of {keys} keys takes {size} bytes in ZooKeeper, also with its values apart; it takes requests of up "
        f"to {FIT_SIZE_MAX} bytes, or about 6,000 keys: commit fewer keys at once"
    )
