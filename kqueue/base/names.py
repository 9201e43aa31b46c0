"""Topic names, names of partition folders, the text of ids, and suggestions for misspelt names."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kqueue.base.errors import InvalidTopic

if TYPE_CHECKING:
    import random

TOPIC_LENGTH_MAX = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"
"""Kafka's log of the cluster's metadata: in a data folder of Kafka, never a topic of ours."""
NEAREST_LENGTH_MAX = 1000
UUID_ZERO = bytes(16)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z", re.ASCII)
_FOLDER = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]*)\Z", re.ASCII)


def check_topic(name: str | None) -> str:
    """Return `name` if it is a valid topic name. Source: Kafka Topic.validate.

    Raises: InvalidTopic: with the rule that `name` breaks.
    """
    if not name:
        raise InvalidTopic("a topic name must not be empty")
    if name in (".", ".."):
        raise InvalidTopic(f"a topic can't be called {name!r}")
    if len(name) > TOPIC_LENGTH_MAX:
        raise InvalidTopic(f"a topic name has at most {TOPIC_LENGTH_MAX} characters, this one has {len(name)}")
    if not _TOPIC.match(name):
        raise InvalidTopic(f"topic {name!r}: only letters, digits, '.', '_' and '-' are allowed")
    return name


def collision_key(topic: str) -> str:
    """Return a key that two topics can't share: '.' and '_' are equal in metric names."""
    return topic.replace(".", "_")


def partition_folder(topic: str, partition: int) -> str:
    """Return the folder name of a partition, e.g. ``orders-0``."""
    return f"{check_topic(topic)}-{partition}"


def parse_partition_folder(name: str) -> tuple[str, int] | None:
    """Return topic and partition of a folder name; None for others (``…-delete``, ``…-stray``)."""
    match = _FOLDER.match(name)
    return (match["topic"], int(match["partition"])) if match and match["topic"] not in (".", "..") else None


def uuid_text(uuid: bytes) -> str:
    """Return a 16-byte id as Kafka prints it: 22 characters of URL-safe base64 without padding."""
    assert len(uuid) == 16
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of an id that Kafka printed.

    Raises: ValueError: not 22 characters of URL-safe base64.
    """
    if len(text) != 22:
        raise ValueError(f"an id has 22 characters of URL-safe base64, found {text!r}")
    return base64.b64decode(text + "==", altchars=b"-_", validate=True)


def random_uuid(rng: random.Random) -> bytes:
    """Return a new 16-byte id (version 4) whose text does not start with '-'.

    Source: Kafka Uuid.randomUuid.
    """
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        if not uuid_text(bytes(raw)).startswith("-"):
            return bytes(raw)


def nearest(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """Return the known name that is most similar to `name`; None if none is similar or `name` is
    long.

    Args: least: the least similarity, from 0 to 1 (equal).
    """
    if len(name) > NEAREST_LENGTH_MAX:
        return None  # clients send names, and the comparison is slow for long ones
    import difflib  # on use: few names are misspelt

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=least)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an error message, ``; did you mean 'x'?``, or nothing."""
    match = nearest(name, known)
    return f"; did you mean {match!r}?" if match else ""
