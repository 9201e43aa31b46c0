"""The creation of the coordinators' internal topics.

Source: Kafka's GroupCoordinatorService, TransactionCoordinator, ShareCoordinatorService.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import KqueueError

logger = logging.getLogger("kqueue.broker")


class CoordinatorTopic(NamedTuple):
    """An internal topic. `partition_count`, `replication_factor`, `segment_bytes`, `min_isr`: names
    of settings; "": the broker's default.
    """

    partition_count: str
    replication_factor: str
    segment_bytes: str
    cleanup_policy: str
    compression_type: str
    min_isr: str = ""
    more_configs: Mapping[str, str] = {}

    def configs(self, config: Config, *, is_replicated: bool) -> dict[str, str | None]:
        """Return the topic's own settings. `is_replicated`: the broker belongs to a cluster."""
        in_sync = {"min.insync.replicas": str(config[self.min_isr])} if is_replicated and self.min_isr else {}
        return {
            **in_sync,
            "cleanup.policy": self.cleanup_policy,
            "compression.type": self.compression_type,
            "segment.bytes": str(config[self.segment_bytes]),
            **self.more_configs,
        }


OFFSETS = CoordinatorTopic(
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "offsets.topic.segment.bytes",
    "compact",
    "producer",
)
TRANSACTIONS = CoordinatorTopic(
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.segment.bytes",
    "compact",
    "uncompressed",
    "transaction.state.log.min.isr",
)
SHARE = CoordinatorTopic(
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.segment.bytes",
    "delete",  # the coordinator deletes what is redundant
    "producer",
    "share.coordinator.state.topic.min.isr",
    {"retention.ms": "-1"},
)


class CreationLog:
    """Logs why internal topics can't be created: clients ask again and again, each reason is one
    line.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    @contextlib.contextmanager
    def of(self, name: str, row: CoordinatorTopic) -> Iterator[None]:
        """Log what the block raises, unless it raised the same the last time."""
        try:
            yield
        except KqueueError as error:
            reason = str(error)
            if self._reasons.get(name) != reason:
                self._reasons[name] = reason
                events.INTERNAL_TOPIC_NOT_CREATED.log(
                    logger,
                    "topic %s can't be created: %s; see %s",
                    topic=name,
                    reason=reason,
                    setting=row.replication_factor,
                )
            raise
        self._reasons.pop(name, None)
