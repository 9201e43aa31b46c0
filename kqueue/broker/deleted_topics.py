"""Deleted topics whose folders may still be on the disk, as the metadata store has them.

A topic's record and this note change in one commit; the note goes when the folders are gone. So a
start after a crash in the middle of a deletion knows that the folders left of it are to be deleted,
and does not set them aside as strays.
"""

from __future__ import annotations

from kqueue.base.names import parse_uuid, uuid_text
from kqueue.broker.metadata_cache import MetadataCache
from kqueue.log.manager import LogManager

PREFIX = "/deleted_topics/"


def key_of(topic_id: bytes) -> str:
    """The note's key; its value is the topic's name, for people."""
    return PREFIX + uuid_text(topic_id)


def deleted_topics(metadata: MetadataCache) -> dict[bytes, str]:
    """Names by id of the topics that were deleted and whose folders were not known to be gone at
    the last commit.
    """
    return {parse_uuid(text): name.decode() for text, name in metadata.under(PREFIX).items()}


class DeletedTopics:
    """Forgets the notes once nothing is left to remove. Belongs to the owner thread."""

    def __init__(self, metadata: MetadataCache, logs: LogManager) -> None:
        self._metadata = metadata
        self._logs = logs
        self._committing = False

    def forget(self) -> None:
        """Remove all notes, in a job, unless folders are still to be removed or may be on a data
        folder that is offline.
        """
        keys = [PREFIX + text for text in self._metadata.under(PREFIX)]
        if not keys or self._committing or self._logs.is_removing or self._logs.offline:
            return
        self._committing = True
        self._metadata.commit("forget deleted topics", dict.fromkeys(keys), self._committed)

    def _committed(self, error: object) -> None:
        # after an error the notes stay until the next deletion or start: they cost a start a look
        # at each folder
        self._committing = False
