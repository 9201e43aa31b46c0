"""The second and the third step of writing exactly once: to decide what makes a batch, and to copy it. Knows no Spark."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kqueue.api.errors import ErrorCode
from kqueue.base.errors import BrokerRefused, ClientError, StagingLost
from kqueue.client import Client, TopicPartition
from kqueue.records.batch import BatchHeader, check_crc, iter_batches, set_producer, stamp
from kqueue.spark.sink.journal import JOURNAL, Decided, Journal, Part, Staged, State, bounds, decided_entry, done_entry
from kqueue.spark.sink.rows import Ready
from kqueue.spark.sink.sending import Outbox, after

logger = logging.getLogger("kqueue.spark")
FETCH_BYTES = 8 * 1024 * 1024
ALL_IN_SYNC = -1
NO_EPOCH = -1
LEAVE = "the rows that were not copied yet can't be had from there: read them again, under a new checkpoint"


def commit(client: Client, query_id: str, batch_id: int, staged: Sequence[Staged] | None) -> None:
    """Have a batch where it belongs, once, whatever was done for it before, and by whom.

    Args: staged: what the tasks staged; None: one of them found the batch decided, and staged nothing.
    Raises: ClientError: it may be called again, by whom ever. StagingLost.
    """
    journal = Journal(client, query_id)
    state = journal.read()
    while state.decided is not None and state.decided.batch_id < batch_id:
        state = _finish(journal, state, resumed=True)
    if batch_id <= state.done:
        return
    writer = ""
    if state.decided is None:
        if staged is None:
            raise StagingLost(f"a task found batch {batch_id} in the journal {journal.place}, where it is no more; start the query again")
        if not staged:
            return
        writer = uuid.uuid4().hex
        journal.append(decided_entry(_decide(client, state, batch_id, writer, staged)))
        state = journal.read()
    if state.decided is not None:
        _finish(journal, state, resumed=state.decided.writer != writer)


def _decide(client: Client, state: State, batch_id: int, writer: str, staged: Iterable[Staged]) -> Decided:
    by_place: dict[TopicPartition, list[Staged]] = {}
    for one in sorted(staged, key=lambda one: (one.shelf, one.offset)):
        by_place.setdefault(TopicPartition(*one.place), []).append(one)
    producer = state.producer or client.init_producer()
    parts = (Part(place, bounds(client, place)[1], state.sequences.get(place, 0), tuple(mine)) for place, mine in sorted(by_place.items()))
    return Decided(batch_id, writer, producer, tuple(parts))


def _finish(journal: Journal, state: State, *, resumed: bool) -> State:
    """Copy what was decided, say that it is done, and let go of it. `resumed`: somebody may have copied some of it before."""
    decided = state.decided
    assert decided is not None
    _copy_all(journal, decided, copied_counts(journal.client, decided) if resumed else {})
    sequences = {part.place: after(part.sequence, part.rows) for part in decided.parts}
    journal.append(done_entry(state, sequences))
    now = journal.read()
    _let_go(journal, decided, now)
    return now


def _copy_all(journal: Journal, decided: Decided, copied: dict[TopicPartition, int]) -> None:
    """Copy, and look again where somebody else has gone on with it meanwhile. Raises: as `commit`."""
    while True:
        try:
            copy(journal, decided, copied)
        except BrokerRefused as error:
            further = copied_counts(journal.client, decided)
            if error.code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or further == copied:
                raise
            copied = further
        else:
            return


def _let_go(journal: Journal, decided: Decided, now: State) -> None:
    """Others may have gone on: what the journal says counts, and not where we wrote."""
    before = {JOURNAL: now.done_at}
    for part in decided.parts:
        for one in part.batches:
            before[one.shelf] = max(before.get(one.shelf, 0), one.offset + one.rows)
    try:
        journal.drop(before)
    except ClientError as error:
        logger.warning("what was staged in %s is done with, but could not be dropped: %s", journal.topic, error)


# --- how far it was copied


def copied_counts(client: Client, decided: Decided) -> dict[TopicPartition, int]:
    """How many of the records that were decided each partition has already."""
    return {part.place: _copied(client, decided, part) for part in decided.parts}


def _copied(client: Client, decided: Decided, part: Part) -> int:
    place, total, found = part.place, part.rows, 0
    begin, end = bounds(client, place)
    at = max(part.since, begin)
    while at < end and found < total:
        records = client.fetch({place: at}, partition_max_bytes=FETCH_BYTES, max_bytes=FETCH_BYTES)[place].records
        begin = at
        for _, header in iter_batches(records):
            at = header.next_offset
            if (header.producer_id, header.producer_epoch) == decided.producer:
                ahead = (after(header.last_sequence, 1) - part.sequence) & 0x7FFFFFFF
                found = max(found, ahead if ahead <= total else 0)
        if at == begin:
            break
    return found


# --- copying


def copy(journal: Journal, decided: Decided, copied: Mapping[TopicPartition, int]) -> None:
    """Send what was decided from the shelves to its partitions, but for the first so many records of each. Raises: as `commit`."""
    wanted: dict[int, dict[int, tuple[Staged, int]]] = {}
    for part in decided.parts:
        ahead = 0
        for one in part.batches:
            if ahead >= copied.get(part.place, 0):
                wanted.setdefault(one.shelf, {})[one.offset] = one, after(part.sequence, ahead)
            ahead += one.rows
    outbox = Outbox(journal.client, ALL_IN_SYNC)
    for _ in outbox.send(_from_shelves(journal, decided, wanted)):
        pass


def _from_shelves(journal: Journal, decided: Decided, wanted: Mapping[int, Mapping[int, tuple[Staged, int]]]) -> Iterator[Ready]:
    for shelf, offsets in sorted(wanted.items()):
        for at, batch, header in _read(journal, shelf, sorted(offsets)):
            one, sequence = offsets[at]
            if (header.size, header.record_count) != (one.size, one.rows):
                what = f"expected {one.size} bytes and {one.rows} records, found {header.size} and {header.record_count}"
                raise StagingLost(f"{journal.topic}-{shelf} at {at}: {what}; {LEAVE}")
            check_crc(batch, 0, header)
            stamp(batch, 0, 0, NO_EPOCH)  # as a producer sends it
            set_producer(batch, 0, decided.producer.id, decided.producer.epoch, sequence)
            yield Ready(one.place, batch, one.rows)


def _read(journal: Journal, shelf: int, offsets: Sequence[int]) -> Iterator[tuple[int, bytearray, BatchHeader]]:
    """The batches of a shelf that begin at these offsets, rising. Raises StagingLost: one is not there."""
    place = TopicPartition(journal.topic, shelf)
    left = list(reversed(offsets))
    while left:
        at = left[-1]
        try:
            records = journal.client.fetch({place: at}, partition_max_bytes=FETCH_BYTES, max_bytes=FETCH_BYTES)[place].records
        except ClientError as error:
            if getattr(error, "code_name", "") != "OFFSET_OUT_OF_RANGE":
                raise
            raise StagingLost(f"{place}: what was staged at {at} is gone, by retention or by hand; {LEAVE}") from None
        for position, header in iter_batches(records):
            if left and header.base_offset == left[-1]:
                yield left.pop(), bytearray(records[position : position + header.size]), header
        if left and left[-1] == at:
            raise StagingLost(f"{place}: no batch begins at {at}, where one was staged; {LEAVE}")
