"""The leader epoch of a single broker, which all its partitions have.

It is raised after a stop that was not clean: consumers see by it that the log they know may have
been cut. Durability: stored before anything is served.
"""

from __future__ import annotations

import json
import logging

from kqueue.base import events
from kqueue.base.issued_ids import IssuedIds
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.broker.replicas.replica import SoleReplica
from kqueue.log.manager import LogManager

logger = logging.getLogger("kqueue.broker")
EPOCH_KEY = "/leader_epoch"


def begin_sole_epoch(replica: SoleReplica, metadata: MetadataCache, logs: LogManager, issued: IssuedIds) -> None:
    """Begin the leader epoch of this start, and store it if it is a new one. Blocks.

    Raises: StorageFailed: it can't be stored.
    """
    entry, is_unclean = metadata.get(EPOCH_KEY), logs.was_unclean
    stored = json.loads(entry) if entry is not None else 0
    epoch = issued.begin_leader_epoch(logs.cluster_id, stored, is_unclean=is_unclean)
    replica.begin_epoch(epoch)
    if is_unclean:
        events.UNCLEAN_STOP.log(
            logger, "the last stop was not clean: checking the logs, leader epoch is now %d", leader_epoch=epoch
        )
    if entry is None or epoch != stored:
        metadata.commit_now({EPOCH_KEY: json.dumps(epoch).encode()})
