"""Events of this broker's topics: one was created, has more partitions, other settings, or is gone.

Subscribers join `Topics.observers`. They are called on the owner thread, one after another, after
the topic is what its record says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kqueue.broker.replicas.partition import Partition
    from kqueue.broker.topics.topics import Topic


class TopicEvents:
    """Called after changes; each method does nothing unless a subscriber says what."""

    def created(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        """The topic is new, or has more partitions: these."""

    def configured(self, topic: Topic) -> None:
        """The topic has other settings."""

    def deleted(self, topic: Topic) -> None:
        """The topic is not known any more; its logs are still there."""
