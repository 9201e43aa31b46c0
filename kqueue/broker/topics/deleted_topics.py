"""Entries of deleted topics whose folders may still be on disk, in the metadata store.

One commit removes a topic's record and adds its entry; the entry is removed after its folders. A
start after a crash during a deletion then deletes the remaining folders, instead of renaming them
as stray partitions. In a cluster the entry names the brokers that have yet to delete theirs, also
those that are down now; each removes itself, and the last one the entry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from kqueue.base.errors import Conflict
from kqueue.base.names import parse_uuid, uuid_text
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.log.manager import LogManager

PREFIX = "/deleted_topics/"


def entry_of(topic_id: bytes, name: str, nodes: Collection[int] | None) -> tuple[str, bytes]:
    """Return key and value of the entry. `nodes`: that have replicas; None: a single broker."""
    value = name if nodes is None else json.dumps({"name": name, "nodes": sorted(nodes)})
    return PREFIX + uuid_text(topic_id), value.encode()


def deleted_topics(metadata: MetadataCache) -> dict[bytes, str]:
    """Return the names, by topic id, of all entries."""
    return {parse_uuid(text): _parse(value)[0] for text, value in metadata.with_prefix(PREFIX).items()}


def _parse(value: bytes) -> tuple[str, list[int] | None]:
    if not value.startswith(b"{"):  # no topic's name does
        return value.decode(), None
    entry = json.loads(value)
    return entry["name"], entry["nodes"]


class DeletedTopics:
    """Removes the entries after their folders. Belongs to the owner thread."""

    def __init__(self, metadata: MetadataCache, logs: LogManager, cluster: Cluster) -> None:
        self._metadata = metadata
        self._logs = logs
        self._cluster = cluster
        self._committing = False
        self.is_kept: Callable[[bytes], bool] = _never
        """Whether a topic has objects in the tier: its entry stays until they are gone."""

    def forget(self) -> None:
        """Remove this broker from all entries, in a job, unless folders are still being removed or
        a data folder is offline.
        """
        if self._committing or self._logs.is_removing or self._logs.offline:
            return
        puts: dict[str, bytes | None] = {}
        for text, value in self._metadata.with_prefix(PREFIX).items():
            name, nodes = _parse(value)
            if self.is_kept(parse_uuid(text)):
                continue
            if nodes is None or self._cluster.is_alone:
                puts[PREFIX + text] = None
            elif self._cluster.node_id in nodes:
                left = [node for node in nodes if node != self._cluster.node_id and self._cluster.find(node)]
                puts[PREFIX + text] = entry_of(parse_uuid(text), name, left)[1] if left else None
        if puts:
            self._committing = True
            self._metadata.commit("forget deleted topics", puts, self._committed)

    def _committed(self, error: object) -> None:
        # after another error they stay until the next deletion or start, where each costs one look
        self._committing = False
        if isinstance(error, Conflict):  # another broker has removed itself at the same time
            self.forget()


def _never(topic_id: bytes) -> bool:
    return False
