"""Keys of the objects of a tier, below the prefix of its URL.

    kqueue-tier.json
    topics/<topic>/<topic id>/topic.json
    topics/<topic>/<topic id>/<partition>/manifest
    topics/<topic>/<topic id>/<partition>/pages/<first offset>-<id>
    topics/<topic>/<topic id>/<partition>/segments/<base offset>-<id>

A topic that is deleted and created again has another id, so its objects are never taken for those
of the former one. Ids of segments are random: no two writers ever write the same object. Ids of
pages are the checksum of their content: a page that is put again has the same bytes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kqueue.base.names import uuid_text

TIER_KEY = "kqueue-tier.json"
TOPICS = "topics"
TOPIC_RECORD = "topic.json"
MANIFEST = "manifest"
SEGMENTS = "segments"
PAGES = "pages"

_OBJECT_ID = re.compile(r"[0-9a-f]{32}\Z", re.ASCII)
_OBJECT = re.compile(rf"(?:{SEGMENTS}|{PAGES})/[0-9]{{20}}-[0-9a-f]{{32}}\Z", re.ASCII)


class TieredPartition(NamedTuple):
    """A partition of a topic with this id (16 bytes)."""

    topic: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def prefix(self) -> str:
        """The prefix of all its objects, without a slash at the end."""
        return f"{topic_prefix(self.topic, self.topic_id)}/{self.partition}"

    @property
    def manifest_key(self) -> str:
        """The key of the root of its manifest."""
        return f"{self.prefix}/{MANIFEST}"

    def segment_key(self, base_offset: int, object_id: str) -> str:
        """Return the key of a segment object; `object_id`: 32 hexadecimal digits."""
        return f"{self.prefix}/{SEGMENTS}/{base_offset:020d}-{object_id}"

    def page_key(self, start_offset: int, object_id: str) -> str:
        """Return the key of a page of the manifest."""
        return f"{self.prefix}/{PAGES}/{start_offset:020d}-{object_id}"

    def has_object(self, key: object) -> bool:
        """Return whether `key` is that of a segment or page of this partition."""
        prefix = f"{self.prefix}/"
        return isinstance(key, str) and key.startswith(prefix) and _OBJECT.match(key, len(prefix)) is not None


def topic_prefix(topic: str, topic_id: bytes) -> str:
    """Return the prefix of all objects of a topic, without a slash at the end."""
    return f"{TOPICS}/{topic}/{uuid_text(topic_id)}"


def is_object_id(text: object) -> bool:
    """Return whether `text` is an id of a segment or page."""
    return isinstance(text, str) and _OBJECT_ID.match(text) is not None
