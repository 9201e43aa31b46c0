"""Compares the state of producers and transactions in a log with the files that store it."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.producer_state import NONE, ProducerStateEntry, ProducerStateManager

Difference = tuple[str, str]
"""Expected, found."""


def producer_differences(
    snapshot: ProducerStateManager, replayed: ProducerStateManager, *, whole: bool
) -> Iterator[Difference]:
    """Return how a snapshot differs from the batches up to its offset.

    A producer that the snapshot lacks may have expired, unless it has an open transaction; or
    expired and returned, then without a coordinator epoch. A producer that the log lacks may be
    older than the log's start.

    Args:
        whole: all batches that the log ever had were replayed.
    """
    for producer_id, said in snapshot.items():
        shown = replayed.by_id.get(producer_id)
        if shown is None:
            if whole:
                yield f"no producer {producer_id}, of which the log has no batch", _text(said)
        elif _facts(said) != _facts(shown) or said.coordinator_epoch not in (NONE, shown.coordinator_epoch):
            yield f"producer {producer_id} with {_text(shown)}", _text(said)
    for producer_id, shown in replayed.items():
        if shown.transaction_offset >= 0 and producer_id not in snapshot.by_id:
            yield f"producer {producer_id} with {_text(shown)}", "nothing of it"


def _facts(producer: ProducerStateEntry) -> tuple[object, ...]:
    last = producer.batches[-1][:3] if producer.batches else None
    return producer.epoch, last, producer.last_timestamp, producer.transaction_offset


def _text(producer: ProducerStateEntry) -> str:
    last = producer.batches[-1] if producer.batches else None
    sequence = f"sequence {last.last_sequence} at offset {last.last_offset}" if last else "no batch"
    begun = f", a transaction from {producer.transaction_offset} on" if producer.transaction_offset >= 0 else ""
    coordinator = f"coordinator epoch {producer.coordinator_epoch}"
    return f"epoch {producer.epoch}, {sequence}, time {producer.last_timestamp}, {coordinator}{begun}"


def transaction_differences(
    said: list[AbortedTxn], shown: list[AbortedTxn], *, whole: bool, compacted: bool
) -> Iterator[tuple[int | None, str, str]]:
    """Return (entry number, expected, found) for each wrong entry of a segment's transaction index.

    Args:
        whole: all of the log was replayed.
        compacted: data of aborted transactions may be gone while their entries remain.
    """
    by_end = {one.last_offset: one for one in shown}
    before = -1
    for number, one in enumerate(said):
        real = by_end.pop(one.last_offset, None)
        if one.last_offset <= before or one.first_offset > one.last_offset:
            yield number, f"a transaction that ends after {before}", _transaction_text(one)
        elif real is None:
            if whole and not compacted:
                yield number, "a transaction that the log shows to be aborted", _transaction_text(one)
        elif real[:2] != one[:2] if whole and not compacted else real.producer_id != one.producer_id:
            yield number, _transaction_text(real), _transaction_text(one)
        elif whole and not compacted and real.last_stable_offset != one.last_stable_offset:
            yield number, f"last stable offset {real.last_stable_offset}", str(one.last_stable_offset)
        before = max(before, one.last_offset)
    for one in by_end.values():
        yield None, _transaction_text(one), "nothing of it"


def _transaction_text(one: AbortedTxn) -> str:
    return f"producer {one.producer_id}, offsets {one.first_offset} to {one.last_offset}, aborted"
