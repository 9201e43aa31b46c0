"""The ids that the brokers of a process have issued, so that none is issued twice.

A broker takes its next ids from its data. Data may go back while clients stay open: a reset begins
with a copy of a snapshot again, a stop drops what is in memory, two brokers begin with copies of
one folder. An id that is issued again makes two producers one, and records of one of them are
taken for duplicates of the other's. So an embedded broker asks this object too.

    producer ids       from a block above all that were reserved
    producer epochs    of a producer id of a cluster id: one above the issued one, so the open
                       producer of the transactional id is fenced
    leader epochs      of a cluster id: one above the issued one, so consumers see that the log
                       they know was cut

Ids of topics, members, sessions and tokens are random, and need none of this.
"""

from __future__ import annotations

import threading
from typing import Protocol, TypeVar

K = TypeVar("K")

KEPT_MAX = 100_000
"""Producer ids with an epoch, and cluster ids, that are kept: the latest."""


class ProducerEpochs(Protocol):
    """The epochs of producer ids, for the transaction coordinator."""

    def note_producer_epoch(self, producer_id: int, epoch: int) -> None:
        """Note an epoch that was issued."""
        ...

    def loaded_producer_epoch(self, producer_id: int, epoch: int) -> int:
        """Return the epoch of a producer id whose data say `epoch`: this one, or a higher one that
        was never issued if the data are older than the producer.
        """
        ...


class IssuedIds:
    """The ids that the brokers which share this object have issued.

    Args:
        is_copy: the data of this broker are a copy made at its start.
    Thread: any.
    """

    def __init__(self, shared: IssuedIds | None = None, *, is_copy: bool = False) -> None:
        self._is_copy = is_copy
        self._state: _Issued = shared._state if shared is not None else _Issued()

    def for_copy(self) -> IssuedIds:
        """Return the same for a broker whose data were copied at its start."""
        return IssuedIds(self, is_copy=True)

    def reserve_producer_ids(self, start: int, count: int) -> int:
        """Return the first of `count` producer ids that are free: `start` or higher."""
        with self._state.lock:
            start = max(start, self._state.producer_ids_end)
            self._state.producer_ids_end = start + count
            return start

    def producer_epochs(self, cluster_id: str) -> ProducerEpochs:
        """Return those of a cluster id; data of other clusters may have the same producer ids."""
        return _ClusterEpochs(self, cluster_id)

    def note_producer_epoch(self, cluster_id: str, producer_id: int, epoch: int) -> None:
        """See `ProducerEpochs`."""
        with self._state.lock:
            _raise(self._state.producer_epochs, (cluster_id, producer_id), epoch)

    def loaded_producer_epoch(self, cluster_id: str, producer_id: int, epoch: int) -> int:
        """See `ProducerEpochs`."""
        with self._state.lock:
            return self._next(self._state.producer_epochs, (cluster_id, producer_id), epoch)

    def begin_leader_epoch(self, cluster_id: str, stored: int, *, is_unclean: bool) -> int:
        """Return the leader epoch of a broker that starts, whose data say `stored`.

        Args: is_unclean: its last stop was, so it needs a new one.
        """
        with self._state.lock:
            return self._next(self._state.leader_epochs, cluster_id, stored, is_raised=is_unclean)

    def _next(self, issued: dict[K, int], key: K, stored: int, *, is_raised: bool = False) -> int:
        known = issued.get(key, stored - 1)
        if is_raised or known > stored or (self._is_copy and known == stored):
            stored = max(known, stored) + 1
        _raise(issued, key, stored)
        return stored


class _ClusterEpochs:
    """The `ProducerEpochs` of one cluster id."""

    def __init__(self, issued: IssuedIds, cluster_id: str) -> None:
        self._issued = issued
        self._cluster_id = cluster_id

    def note_producer_epoch(self, producer_id: int, epoch: int) -> None:
        """See `ProducerEpochs`."""
        self._issued.note_producer_epoch(self._cluster_id, producer_id, epoch)

    def loaded_producer_epoch(self, producer_id: int, epoch: int) -> int:
        """See `ProducerEpochs`."""
        return self._issued.loaded_producer_epoch(self._cluster_id, producer_id, epoch)


class _Issued:
    """The highest ids issued."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.producer_ids_end = 0
        self.producer_epochs: dict[tuple[str, int], int] = {}
        self.leader_epochs: dict[str, int] = {}


def _raise(issued: dict[K, int], key: K, number: int) -> None:
    issued[key] = max(issued.pop(key, -1), number)
    if len(issued) > KEPT_MAX:
        del issued[next(iter(issued))]
