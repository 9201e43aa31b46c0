"""Warnings of topics' settings that have no effect."""

from __future__ import annotations

import logging

from kqueue.base.settings import Catalog
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.topics.topics import Topic

logger = logging.getLogger("kqueue.broker")


class IneffectiveSettings:
    """Warns once of each setting."""

    def __init__(self, catalog: Catalog, cluster: Cluster) -> None:
        self._catalog = catalog
        self._cluster = cluster
        self._reported: set[str] = set()

    def warn_of(self, topic: Topic) -> None:
        """Warn of those of the topic's own settings that differ from the default."""
        for name, value in topic.config.overrides.items():
            row = self._catalog.topic[name]
            if value == row.default or name in self._reported:
                continue
            if row.without_effect:
                self._reported.add(name)
                logger.warning("topic %s: %s has no effect: %s", topic.name, name, row.doc)
            elif row.cluster_only and self._cluster.is_alone:
                self._reported.add(name)
                logger.warning("topic %s: %s has no effect on a single broker", topic.name, name)
