"""All entries of the ZooKeeper store in memory, brought up to date by what `last` says has changed.

Reads then cost one round trip if nothing changed, and a commit by a broker that saw the latest one
costs one too. Entries that changed are read in a row, and `last` again behind them: if it is still
the same, what was read between belongs together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kazoo.protocol.states import ZnodeStat

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
        self._changed = 0
        """When it was changed."""
        self.last = Last()
        self.last_version = -1
        self.unsettled: int | None = None
        self._has_gone_back = False
        self._connection = 0

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

    def committed(
        self, last: Last, stat: ZnodeStat, puts: Mapping[str, MirroredEntry], deletes: Collection[str]
    ) -> None:
        """Take over a commit of this store. `stat`: of `last` behind it."""
        self.last, self.last_version, self._changed = last, stat.version, stat.mzxid
        self._entries.update(puts)
        for key in deletes:
            self._entries.pop(key, None)

    @property
    def is_of_this_connection(self) -> bool:
        """Whether it was brought up to date since the client connected: the servers' data may have
        gone back before.
        """
        return self._connection == self._client.connections

    def reset(self) -> None:
        """Read everything the next time."""
        self._is_loaded = False

    def catch_up(self, deadline: float) -> None:
        """Include all commits that returned before the call. Raises: Disconnected, StorageFailed.

        A commit without an answer that still could happen is ruled out first: `last` gets another
        version, which that commit does not expect.
        """
        connection = self._client.connections
        _, node = self._client.gather(deadline, [barrier(self._layout.last), get(self._layout.last)])
        last = self._check_last(node)
        if self.unsettled is not None and self.unsettled == node.stat.version:
            with contextlib.suppress(Rejected):  # a commit was first, or that one itself
                self._client.transact(deadline, [Operation("set", self._layout.last, node.data, self.unsettled)])
            (node,) = self._client.gather(deadline, [get(self._layout.last)])
            last = self._check_last(node)
        self.unsettled = None
        self._load(deadline, node, last)
        self._connection = connection

    def _check_last(self, node: ZnodeContent | None) -> Last:
        path = self._layout.last
        if node is None or (self._created and node.stat.czxid != self._created):
            raise StorageFailed(
                f"ZooKeeper's node {path} was deleted, or the servers' data was replaced, while this broker ran: "
                "put back their newest data"
            )
        if self._is_loaded and (node.stat.version, node.stat.mzxid) == (self.last_version, self._changed):
            return self.last
        last = Last.from_bytes(node.data, path)
        follows = last.follows(self.last)
        if follows is False or (follows is None and self._has_gone_back):
            raise self._went_back(last)
        self._has_gone_back = False
        return last

    def _went_back(self, last: Last) -> StorageFailed:
        """Return the error for commits that do not follow those of this mirror. It stays until
        some are seen to follow: later ones do not tell.
        """
        self._has_gone_back = True
        return StorageFailed(
            f"ZooKeeper's node {self._layout.last} went back from commit {self.last.number}, and has another commit "
            f"{last.number}: the servers lost data, or an older copy was restored; put back their newest data"
        )

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
            # `last` does not tell any more whether its commits follow; entries that went back do.
            for key in self._entries.keys() & mirrored.keys():
                entry = mirrored[key]
                if entry is not None and entry.entry.version < self._entries[key].entry.version:
                    raise self._went_back(last)
            self._entries = {}
        for key, entry in mirrored.items():
            if entry is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = entry
        self.last, self.last_version = last, node.stat.version
        self._created, self._changed = node.stat.czxid, node.stat.mzxid
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
