"""Tiers in folders, with segments that a leader would have copied there."""

from __future__ import annotations

import shutil
from pathlib import Path

import kqueue
from kqueue.client import Client
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log_tools import LogFolder
from kqueue.storage import LocalStorage, Storage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS
from kqueue.tests.tier.tiered_logs import claim, copy_all
from kqueue.tier.formats.keys import TIER_KEY, TieredPartition
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.formats.tier_record import TierRecord, encode_tier_record
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.folder import FolderTierStore

TOPIC_ID = bytes(range(16))
T0 = TieredPartition("t", TOPIC_ID, 0)


def make_tier(folder: Path) -> FolderTierStore:
    """Return the store of a new tier."""
    store = FolderTierStore.of_path(str(folder))
    body = encode_tier_record(TierRecord("cluster"))
    store.put(TIER_KEY, (body,), len(body))
    return store


def copy_log(store: TierStore, storage: Storage, partition: TieredPartition = T0, seed: int = 0) -> list[TieredSegment]:
    """Copy the sealed segments of a log on a disk that the tier lacks; return what was copied."""
    log = Log.open(storage, str(partition), LogConfig.of(), ManualClock(START_MS))
    try:
        manifest = Manifest.open(store, partition)
        leader_epoch = max((epoch for epoch, _ in log.epochs.entries()), default=0)
        claim(manifest, log, leader_epoch)
        return copy_all(store, manifest, log, leader_epoch=leader_epoch, seed=seed)
    finally:
        log.close()


def copy_partition(store: TierStore, data: Path, scratch: Path, topic: str, partition: int = 0) -> Manifest:
    """Copy the sealed segments of a broker that is running, and return the manifest of the tier."""
    name = f"{topic}-{partition}"
    shutil.copytree(data / name, scratch / name)
    try:
        storage = LocalStorage(scratch)
        topic_id = LogFolder(storage, name).topic_id
        assert topic_id is not None
        tiered = TieredPartition(topic, topic_id, partition)
        copy_log(store, storage, tiered, seed=partition)
        return Manifest.open(store, tiered)
    finally:
        shutil.rmtree(scratch / name)


def drop_local(broker: kqueue.Broker, topic: str, before: int, partition: int = 0) -> None:
    """Delete records of a broker, as local retention would what the tier has."""
    with Client(broker.bootstrap) as client:
        client.delete_records({(topic, partition): before})
