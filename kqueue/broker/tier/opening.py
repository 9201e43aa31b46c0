"""Opens the tiered storage of a broker, if its settings ask for one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.broker.metadata.broker_metadata import BrokerMetadata
from kqueue.broker.replicas.partition_host import PartitionHost
from kqueue.broker.scheduler import Scheduler
from kqueue.broker.tier_config import SYSTEM_ENABLE, TIER_URL
from kqueue.broker.topics.topics import Topics
from kqueue.broker.upkeep.log_upkeep import LogUpkeep
from kqueue.log.manager import LogManager

if TYPE_CHECKING:
    from kqueue.broker.tier.tier_manager import TierManager
    from kqueue.tier.stores.contract import TierStore


def open_tier(
    config: Config,
    topics: Topics,
    logs: LogManager,
    upkeep: LogUpkeep,
    metadata: BrokerMetadata,
    partitions: PartitionHost,
    scheduler: Scheduler,
    rng: random.Random,
) -> TierManager | None:
    """Return the tiered storage; None: the settings disable it.

    Raises: SettingError: no URL, or a wrong one.
    """
    if not config[SYSTEM_ENABLE]:
        return None
    # on use: most brokers have no tier
    from kqueue.broker.tier.tier_host import TierHost
    from kqueue.broker.tier.tier_manager import TierManager

    store = with_retries(_open_store(config), scheduler.clock, rng)
    host = TierHost(config, topics, logs, partitions, scheduler, store, rng)
    return TierManager(host, upkeep, metadata)


def with_retries(store: TierStore, clock: Clock, rng: random.Random) -> TierStore:
    """Return the store with repeated calls, which stop for a while when the store is away."""
    from kqueue.tier.stores.retries import RetryingStore, RetryPolicy

    return RetryingStore(store, RetryPolicy(), clock=clock, rng=rng)


def _open_store(config: Config) -> TierStore:
    from kqueue.tier.errors import TierError
    from kqueue.tier.stores.address import location_of, open_store, secret_option

    url = config[TIER_URL]
    if url is None:
        raise SettingError(f"{SYSTEM_ENABLE}=true needs {TIER_URL}: expected a URL such as file:///mnt/tier")
    try:
        store = open_store(url)
    except TierError as error:
        raise SettingError(f"{TIER_URL}: {error}") from None
    if (name := secret_option(url)) is not None:
        store.close()
        raise SettingError(
            f"{TIER_URL}={location_of(url)} has the option {name}, a secret that settings would show: use variables of "
            "the environment, a profile, or a role of the machine"
        )
    return store
