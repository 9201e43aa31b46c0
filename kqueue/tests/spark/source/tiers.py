"""Tiers in folders, with segments that a leader would have copied there."""

from __future__ import annotations

import shutil
from pathlib import Path

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.log_tools import LogFolder
from kqueue.spark.source.options import SourceOptions
from kqueue.storage import LocalStorage, Storage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send
from kqueue.tests.telemetry.scraping import scrape
from kqueue.tests.tier.tiered_logs import claim, copy_all
from kqueue.tests.waits import eventually
from kqueue.tier.formats.keys import TIER_KEY, TieredPartition
from kqueue.tier.formats.segments import TieredSegment
from kqueue.tier.formats.tier_record import TierRecord, encode_tier_record
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.folder import FolderTierStore

EARLIEST_LOCAL = -4
"""ListOffsets: where the log on the disk begins (KIP-405)."""
TOPIC_ID = bytes(range(16))
T0 = TieredPartition("t", TOPIC_ID, 0)


def make_tier(folder: Path) -> FolderTierStore:
    """Return the store of a new tier."""
    store = FolderTierStore.of_path(str(folder))
    body = encode_tier_record(TierRecord("cluster"))
    store.put(TIER_KEY, (body,), len(body))
    return store


def copy_log(store: TierStore, storage: Storage, partition: TieredPartition = T0) -> list[TieredSegment]:
    """Copy the sealed segments of a log on a disk that the tier lacks; return what was copied."""
    log = Log.open(storage, str(partition), LogConfig.of(), ManualClock(START_MS))
    try:
        manifest = Manifest.open(store, partition)
        leader_epoch = max((epoch for epoch, _ in log.epochs.entries()), default=0)
        claim(manifest, log, leader_epoch)
        return copy_all(store, manifest, log, leader_epoch=leader_epoch)
    finally:
        log.close()


def copy_partition(store: TierStore, data: Path, scratch: Path, topic: str, partition: int = 0) -> Manifest:
    """Copy the sealed segments of a broker that is running, and return the manifest of the tier."""
    name = f"{topic}-{partition}"
    eventually(lambda: _is_copied(data / name, scratch / name))
    try:
        storage = LocalStorage(scratch)
        topic_id = LogFolder(storage, name).topic_id
        assert topic_id is not None
        tiered = TieredPartition(topic, topic_id, partition)
        copy_log(store, storage, tiered)
        return Manifest.open(store, tiered)
    finally:
        shutil.rmtree(scratch / name)


def _is_copied(folder: Path, copy: Path) -> bool:
    """Copy a folder; return whether no file was deleted or renamed meanwhile."""
    try:
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.deleted"))
    except shutil.Error:
        shutil.rmtree(copy)
        return False
    return True


def drop_local(broker: kqueue.Broker, topic: str, before: int, partition: int = 0) -> None:
    """Delete records of a broker, as local retention would what the tier has."""
    with Client(broker.bootstrap) as client:
        client.delete_records({(topic, partition): before})


class TieredBroker:
    """A broker with a topic t of one partition, and a tier that has what `copy` found sealed.

    path: of the tier, as an option of the source.
    """

    def __init__(self, folder: Path, path: object, store: TierStore) -> None:
        self.folder = folder
        self.path = path
        self.store = store
        self.broker = kqueue.Broker(folder / "data", kqueue_metrics_listener="127.0.0.1:0")
        self.broker.start()
        self.broker.create_topic("t", 1, segment_bytes=1024)
        self.end = 0

    def send(self, batches: int) -> None:
        for _ in range(batches):
            send(self.broker, "t", 0, 5, time_ms=BEGIN_MS + self.end)
            self.end += 5

    def copy(self) -> Manifest:
        """Copy the sealed segments; return the manifest."""
        (self.folder / "scratch").mkdir(exist_ok=True)
        return copy_partition(self.store, self.folder / "data", self.folder / "scratch", "t")

    def options(self, **given: object) -> SourceOptions:
        """Read the tier and the broker."""
        return options(self.broker, path=self.path, subscribe="t", **given)

    def fetches(self) -> float:
        """Return the number of Fetch requests so far."""
        return scrape(self.broker).get(("kqueue_requests_total", (("api", "Fetch"),)), 0)


def tiering_broker(data: Path, url: str) -> kqueue.Broker:
    """Return a broker, not started, that copies sealed segments to a tier, and deletes most of them
    here, as soon as it can.
    """
    settings = {
        "remote.log.storage.system.enable": "true",
        "kqueue.tier.url": url,
        "remote.log.manager.task.interval.ms": "50",
        "log.retention.check.interval.ms": "50",
    }
    return kqueue.Broker(data, settings=settings, kqueue_metrics_listener="127.0.0.1:0")


def create_tiered(broker: kqueue.Broker, topic: str) -> None:
    """Create a topic of one partition with small segments, of which few stay on the disk."""
    broker.create_topic(topic, 1, segment_bytes=1024, remote_storage_enable="true", local_retention_bytes=1500)


def local_start(broker: kqueue.Broker, topic: str) -> int:
    """Return the first offset that the broker has on its disk."""
    query = {TopicPartition(topic, 0): EARLIEST_LOCAL}
    with Client(broker.bootstrap) as client:
        offset = client.offsets(query)[TopicPartition(topic, 0)].offset
    assert offset is not None
    return offset
