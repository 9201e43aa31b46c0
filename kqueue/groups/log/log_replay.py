"""Reduces one partition of `__consumer_offsets` to the records that count, before any is decoded.

A partition holds many versions of a key between two compactions; only the last is decoded.
Transactions are applied as `pending_offsets` applies them in a running coordinator, so memory is
what a replay gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kqueue.base.sliced_task import SlicedWork
from kqueue.groups.log.group_log import EndMarker, LogEntry, TransactionalRecord
from kqueue.groups.log.open_transactions import OpenTransactions


class ReplayedPartition(NamedTuple):
    """The content of one partition of the log after a replay.

    Attributes:
        latest: keys and values, in the order in which they were last written; None: a tombstone.
        pending: records of open transactions, oldest first, and whether a later record of the key
            without a transaction supersedes each.
    """

    latest: dict[bytes, bytes | None]
    pending: list[tuple[TransactionalRecord, bool]]


def replay(entries: Iterable[LogEntry]) -> SlicedWork[ReplayedPartition]:
    """Return what the entries of a partition, oldest first, say together; one step per entry."""
    latest: dict[bytes, bytes | None] = {}
    transactions: OpenTransactions[int, bytes, bytes | None] = OpenTransactions()
    for entry in entries:
        if isinstance(entry, TransactionalRecord):
            transactions.add(entry.producer_id, entry.key, entry.value)
        elif isinstance(entry, EndMarker):
            for key, value, is_current in transactions.complete(entry.producer_id, committed=entry.committed):
                if is_current:
                    _put(latest, key, value)
        else:
            key, value = entry
            _put(latest, key, value)
            if transactions:
                if value is None:
                    transactions.discard(key)
                else:
                    transactions.supersede(key)
        yield None
    pending = [
        (TransactionalRecord(producer_id, key, value), superseded)
        for producer_id, key, value, superseded in transactions.pending()
    ]
    return ReplayedPartition(latest, pending)


def _put(latest: dict[bytes, bytes | None], key: bytes, value: bytes | None) -> None:
    latest.pop(key, None)  # keeps the order of the log: two versions of a key may name the same offset
    latest[key] = value
