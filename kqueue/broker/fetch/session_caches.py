"""The fetch sessions that one broker keeps (KIP-227)."""

from __future__ import annotations

import random

from kqueue.base.config import Config
from kqueue.broker.fetch.fetch_sessions import FetchSessions
from kqueue.broker.fetch.follower_sessions import FollowerSessions
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.topics.topics import Topics


class FetchSessionCaches:
    """Two caches: sessions of consumers, however many, evict none of a follower.

    Attributes: of_consumers, of_followers: the sessions of each.
    """

    def __init__(self, config: Config, topics: Topics, scheduler: Scheduler, node_id: int, rng: random.Random) -> None:
        clock = scheduler.clock
        self.of_consumers = FetchSessions(config["max.incremental.fetch.session.cache.slots"], clock, rng)
        self.of_followers = FollowerSessions(topics, scheduler.purgatory, clock, rng, config, node_id)
