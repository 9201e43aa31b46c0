"""All entries of the ZooKeeper store in memory, brought up to date by what `last` says has changed.

Reads then cost one round trip if nothing changed, and a commit by a broker that saw the latest one
costs one too. Entries that changed are read in a row, and `last` again behind them: if it is still
the same, what was read between belongs together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import StorageFailed
from kqueue.metadata.store import Changes, Entry, Snapshot
from kqueue.metadata.zookeeper_client import Operation, Rejected, ZnodeContent, ZookeeperClient, barrier, children, get
from kqueue.metadata.zookeeper_nodes import Last, Layout, StoredValue, key_of

READ_ALL_TIMEOUT_S = 60.0
"""Limit for reading all entries over a slow network. A lost connection ends it earlier."""


class MirroredEntry(NamedTuple):
    """An entry, and the names of the parts of its value."""

    entry: Entry
    parts: tuple[str, ...] = ()


_INCOMPLETE = MirroredEntry(Entry(b"", 0))


class Mirror:
    """The entries as of `last`. Thread: one at a time.

    Attributes:
        last: the latest commit that is included.
        last_version: ZooKeeper's version of the node `last` then; a commit compares it.
        unsettled: the version that a commit without an answer compared; None: no such one.
    """

    def __init__(self, client: ZookeeperClient, layout: Layout) -> None:
        self._client = client
        self._layout = layout
        self._entries: dict[str, MirroredEntry] = {}
        self._is_loaded = False
        self._created = 0
        """When `last` was created, as ZooKeeper's transaction id."""
        self.last = Last()
        self.last_version = -1
        self.unsettled: int | None = None

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def parts(self, key: str) -> tuple[str, ...]:
        """Return the names of the parts of a key's value."""
        mirrored = self._entries.get(key)
        return () if mirrored is None else mirrored.parts

    def all_parts(self) -> set[str]:
        """Return the names of the parts of all values."""
        return {name for mirrored in self._entries.values() for name in mirrored.parts}

    def versions(self, keys: Collection[str]) -> dict[str, int]:
        """Return the versions of those keys that exist."""
        return {key: self._entries[key].entry.version for key in keys if key in self._entries}

    def read(self, prefix: str) -> Snapshot:
        """As `MetadataStore.read`."""
        return {key: self._entries[key].entry for key in sorted(self._entries) if key.startswith(prefix)}

    def changes(self, after: int) -> Changes:
        """As `ClusterStore.changes`."""
        changed = self.last.changed_since(after) if after > 0 else None
        if changed is None:
            return Changes(self.last.number, {key: mirrored.entry for key, mirrored in self._entries.items()}, True)
        entries = {key: self._entries[key].entry if key in self._entries else None for key in changed}
        return Changes(self.last.number, entries, False)

    def committed(self, last: Last, version: int, puts: Mapping[str, MirroredEntry], deletes: Collection[str]) -> None:
        """Take over a commit of this store."""
        self.last, self.last_version = last, version
        self._entries.update(puts)
        for key in deletes:
            self._entries.pop(key, None)

    def reset(self) -> None:
        """Read everything the next time."""
        self._is_loaded = False

    def catch_up(self, deadline: float) -> None:
        """Include all commits that returned before the call. Raises: Disconnected, StorageFailed.

        A commit without an answer that still could happen is ruled out first: `last` gets another
        version, which that commit does not expect.
        """
        _, node = self._client.gather(deadline, [barrier(self._layout.last), get(self._layout.last)])
        last = self._check_last(node)
        if self.unsettled is not None and self.unsettled == node.stat.version:
            with contextlib.suppress(Rejected):  # a commit was first, or that one itself
                self._client.transact(deadline, [Operation("set", self._layout.last, node.data, self.unsettled)])
            (node,) = self._client.gather(deadline, [get(self._layout.last)])
            last = self._check_last(node)
        self.unsettled = None
        self._load(deadline, node, last)

    def _check_last(self, node: ZnodeContent | None) -> Last:
        path = self._layout.last
        if node is None or (self._created and node.stat.czxid != self._created):
            raise StorageFailed(
                f"ZooKeeper's node {path} was deleted, or the servers' data was replaced, while this broker ran: "
                "restore it, then restart the brokers"
            )
        if self._is_loaded and node.stat.version == self.last_version:
            return self.last
        last = Last.from_bytes(node.data, path)
        if last.number < self.last.number:
            raise StorageFailed(
                f"ZooKeeper's node {path} went back from commit {self.last.number} to {last.number}: the servers "
                "lost data, or an older copy was restored; restart the brokers"
            )
        return last

    def _load(self, deadline: float, node: ZnodeContent, last: Last) -> None:
        changed = last.changed_since(self.last.number) if self._is_loaded else None
        mirrored: dict[str, MirroredEntry | None] = {}
        is_complete = changed is None
        # The values are read one by one. So `last` is read again after them, and what it names as
        # changed meanwhile is read once more, until it stays the same.
        while changed is None or changed:
            if changed is None:  # nothing was read yet, or more was committed than `last` has
                is_complete, mirrored, changed = True, {}, self._all_keys(deadline)
                deadline = max(deadline, monotonic_s() + READ_ALL_TIMEOUT_S)
            mirrored.update(self._read_keys(deadline, changed))
            (newer,) = self._client.gather(deadline, [get(self._layout.last)])
            since, last = last.number, self._check_last(newer)
            if newer.stat.version == node.stat.version:
                break
            node = newer
            changed = last.changed_since(since)
        for key, entry in mirrored.items():
            if entry is _INCOMPLETE:
                raise StorageFailed(f"ZooKeeper's node {self._layout.key(key)} is damaged: a part of its value is gone")
        if is_complete:
            self._entries = {}
        for key, entry in mirrored.items():
            if entry is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = entry
        self.last, self.last_version, self._created = last, node.stat.version, node.stat.czxid
        self._is_loaded = True

    def _all_keys(self, deadline: float) -> set[str]:
        (names,) = self._client.gather(deadline, [children(self._layout.data)])
        return set(map(key_of, names or ()))

    def _read_keys(self, deadline: float, keys: Collection[str]) -> dict[str, MirroredEntry | None]:
        nodes = self._client.gather(deadline, [get(self._layout.key(key)) for key in keys])
        stored = {
            key: StoredValue.from_bytes(node.data, self._layout.key(key))
            for key, node in zip(keys, nodes, strict=True)
            if node is not None
        }
        names = [name for value in stored.values() for name in value.parts]
        parts = dict(
            zip(names, self._client.gather(deadline, [get(self._layout.part(name)) for name in names]), strict=True)
        )
        mirrored: dict[str, MirroredEntry | None] = dict.fromkeys(keys)
        for key, value in stored.items():
            path = self._layout.key(key)
            if value.parts:
                pieces = [parts[name] for name in value.parts]
                if None in pieces:  # replaced meanwhile, in which case `last` names the key again
                    mirrored[key] = _INCOMPLETE
                    continue
                value = value._replace(content=b"".join(piece.data for piece in pieces))
            mirrored[key] = MirroredEntry(Entry(value.value(path), value.number), value.parts)
        return mirrored
