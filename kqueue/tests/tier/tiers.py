"""Tiers with topics in them, as brokers leave them."""

from __future__ import annotations

from kqueue.log.log import Log
from kqueue.records.batch import read_header
from kqueue.storage import MemoryStorage
from kqueue.tests.log.helpers import append, end_transaction, flush, open_log
from kqueue.tests.tier.tiered_logs import ORDERS, claim, copy_all
from kqueue.tier.formats.keys import TIER_KEY, TieredPartition
from kqueue.tier.formats.tier_record import TierRecord, encode_tier_record
from kqueue.tier.formats.topic_record import TopicRecord, encode_topic_record
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = {"remote.storage.enable": "true", "segment.bytes": "1048576"}


def put(store: TierStore, key: str, data: bytes) -> None:
    """Put an object."""
    store.put(key, (data,), len(data))


def put_records(store: TierStore, record: TopicRecord | None = None) -> TopicRecord:
    """Put the records of the tier and of a topic; None: of `ORDERS`. Returns: that of the topic."""
    record = record or TopicRecord(ORDERS.topic, ORDERS.topic_id, 1, 1, SETTINGS, created_ms=1000)
    put(store, TIER_KEY, encode_tier_record(TierRecord(CLUSTER, 1000)))
    put(store, record.key, encode_topic_record(record))
    return record


def write(log: Log, count: int, *, roll_every: int, leader_epoch: int = 0, size: int = 10) -> None:
    """Append batches of one record, an aborted transaction among each ten, and roll."""
    for number in range(count):
        end = log.end_offset
        if end % 10 == 4:
            producer = {"producer_id": 7, "epoch": 0, "base_sequence": end // 10, "transactional": True}
            append(log, b"undone", leader_epoch=leader_epoch, **producer)
            end_transaction(log, 0, 7, leader_epoch=leader_epoch)
        else:
            append(log, b"%d;" % end * size, leader_epoch=leader_epoch, time_ms=1_700_000_000_000 + end)
        if number % roll_every == roll_every - 1:
            flush(log)
            log.roll()


def copied_log(store: TierStore, count: int = 40, *, partition: TieredPartition = ORDERS, size: int = 10) -> Log:
    """Return a log of leader epoch 0, whose sealed segments are in the tier."""
    log = open_log(index_interval_bytes=1)
    write(log, count, roll_every=7, size=size)
    manifest = Manifest.open(store, partition)
    claim(manifest, log, 0)
    copy_all(store, manifest, log)
    return log


def copied_by_next_leader(
    store: TierStore, log: Log, count: int = 40, *, kept: int | None = None, size: int = 10, epoch: int = 1
) -> Log:
    """Return the log of a new leader, which has other segments; the tier has the sealed ones.

    Args: kept: the offset up to which it has the former leader's records; None: all of them.
    """
    end = log.end_offset if kept is None else kept
    following = open_log(MemoryStorage(), index_interval_bytes=1)
    offset = log.segments.base_offset
    number = 0
    while offset < end:
        read = log.read(offset, 1, end_offset=end, min_one_batch=True)
        data = bytearray(read.read())
        append_replicated(following, data)
        offset = read.next_offset
        number += 1
        if number % (10 + epoch) == 9 + epoch:
            flush(following)
            following.roll()
    write(following, count, roll_every=8 + epoch, leader_epoch=epoch, size=size)
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, following, epoch)
    copy_all(store, manifest, following, leader_epoch=epoch)
    return following


def append_replicated(log: Log, data: bytearray) -> None:
    """Append one batch as a follower does: it keeps its offsets and epoch."""
    header = read_header(data)
    log.append(data, header, leader_epoch=header.leader_epoch, client=False)
