"""Entries of deleted topics whose folders may still be on disk, in the metadata store.

One commit removes a topic's record and adds its entry; the entry is removed after its folders. A
start after a crash during a deletion then deletes the remaining folders, instead of renaming them
as stray partitions.
"""

from __future__ import annotations

from kqueue.base.names import parse_uuid, uuid_text
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.log.manager import LogManager

PREFIX = "/deleted_topics/"


def key_of(topic_id: bytes) -> str:
    """Return the entry's key; its value is the topic's name."""
    return PREFIX + uuid_text(topic_id)


def deleted_topics(metadata: MetadataCache) -> dict[bytes, str]:
    """Return the names, by topic id, of all entries."""
    return {parse_uuid(text): name.decode() for text, name in metadata.with_prefix(PREFIX).items()}


class DeletedTopics:
    """Removes the entries after their folders. Belongs to the owner thread."""

    def __init__(self, metadata: MetadataCache, logs: LogManager) -> None:
        self._metadata = metadata
        self._logs = logs
        self._committing = False

    def forget(self) -> None:
        """Remove all entries, in a job, unless folders are still being removed or a data folder is
        offline.
        """
        keys = [PREFIX + text for text in self._metadata.with_prefix(PREFIX)]
        if not keys or self._committing or self._logs.is_removing or self._logs.offline:
            return
        self._committing = True
        self._metadata.commit("forget deleted topics", dict.fromkeys(keys), self._committed)

    def _committed(self, error: object) -> None:
        # after an error they stay until the next deletion or start; each costs a start one look
        self._committing = False
