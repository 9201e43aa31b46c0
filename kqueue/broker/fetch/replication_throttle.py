"""Bounds on what replicas out of sync copy, so that a reassignment leaves room for clients.

Each broker has two: what it sends as leader, and what it fetches as follower. A bound holds for the
replicas that a topic's settings name, and for those only that are not in sync: who is in sync stays
so. Their bytes count, too, so what is left is for the others. The bound is on the average; after a
pause a second's worth goes at once. Source: KIP-73, Kafka's ReplicationQuotaManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.config import Config, TopicConfig
from kqueue.base.rate_limiter import RateLimiter
from kqueue.replication.config import ThrottledSide

if TYPE_CHECKING:
    from kqueue.broker.replicas.partition import Partition
    from kqueue.broker.topics.topics import Topics

ALL = "*"
TOPICS_MAX = 1000
"""So many topics' settings are kept as sets."""
_NONE: tuple[None, frozenset[str]] = (None, frozenset())


class ReplicationThrottle:
    """The bound on one side of one broker. Belongs to the owner thread."""

    def __init__(self, side: ThrottledSide, config: Config, topics: Topics, clock: Clock, node_id: int) -> None:
        self._side = side
        self._topics = topics
        self._node_id = node_id
        self._named: dict[str, tuple[TopicConfig, frozenset[str]]] = {}
        self._rate = RateLimiter(config[side.rate], clock)
        config.observe([side.rate], lambda: self._rate.configure(config[side.rate]))

    def holds_back(self, partition: Partition, follower: int) -> bool:
        """Whether a follower must not copy of this partition now."""
        return follower not in partition.isr and self._is_bounded(partition) and self._rate.wait_ms() > 0

    def wait_ms(self) -> float:
        """Return the milliseconds until nobody is held back, if nothing else is copied."""
        return self._rate.wait_ms()

    def count(self, partition: Partition, size: int) -> None:
        """Count bytes of records that are copied."""
        if size and self._is_bounded(partition):
            self._rate.count(size)

    def _is_bounded(self, partition: Partition) -> bool:
        topic = self._topics.find(partition.topic)
        if topic is None or not topic.config[self._side.replicas]:
            return False
        config, replicas = self._named.get(topic.name, _NONE)
        if config is not topic.config:
            if len(self._named) >= TOPICS_MAX:  # some are deleted
                self._named.clear()
            config, replicas = self._named[topic.name] = (topic.config, frozenset(topic.config[self._side.replicas]))
        return ALL in replicas or f"{partition.index}:{self._node_id}" in replicas
