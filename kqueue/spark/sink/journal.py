"""The journal of a query's exactly-once batches: partition 0 of its staging topic. No pyspark.

Each entry is a JSON record. `opened`: the journal exists. `decided`: which staged batches, or which
transactions, form a batch. `done`: they are copied, or committed. `guard`: the transaction that
hides a batch until it is done. `abandoned`: a guard is of no use any more, and nothing of its batch
was committed. Replaying the entries in order gives the same state in every process, even with
duplicate entries.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kqueue.base.clock import wall_ms
from kqueue.client import (
    EARLIEST,
    LATEST,
    Client,
    NewTopic,
    ProducerIdAndEpoch,
    TopicMetadata,
    TopicPartition,
    TransactionalProducer,
)
from kqueue.client.errors import BrokerRefused, FetchOutOfRange
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.builder import BatchBuilder
from kqueue.spark.errors import StagingLost
from kqueue.spark.options import STAGING_PREFIX
from kqueue.wire.error_codes import ErrorCode

VERSION = 1
PREFIX = STAGING_PREFIX
JOURNAL = 0
NONE = -1
READS_MAX = 10
"""Another driver that has done a batch drops the entries before, while they are read."""
SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(128 * 1024 * 1024),
    "compression.type": "producer",
    "max.message.bytes": str(2**31 - 1),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
"""Topic settings that accept any batch unchanged and keep it.

The sink deletes finished data itself. DeleteRecords cannot delete from the last segment, so
segments are small, but not smaller than the largest batch that a client can read.
"""


class StagedBatch(NamedTuple):
    """A staged batch for `topic_partition`.

    It is in the staging partition `staging_partition` at `offset`, has `size` bytes and `rows`
    records.
    """

    topic_partition: TopicPartition
    staging_partition: int
    offset: int
    size: int
    rows: int


class PartitionBatches(NamedTuple):
    """The batches of one target partition, in order.

    `sequence`: of the first batch. `since`: no batch is in the target before this offset.
    """

    topic_partition: TopicPartition
    since: int
    sequence: int
    batches: tuple[StagedBatch, ...]

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(batch.rows for batch in self.batches)


class Guard(NamedTuple):
    """The guard of a batch. `number`: counts those of one batch.

    `producer`: None: it was abandoned, and the batch needs the next one.
    """

    batch_id: int
    number: int
    producer: TransactionalProducer | None


@dataclass(frozen=True, slots=True)
class DecidedBatch:
    """A decided batch: staged batches in `parts`, or transactions.

    `writer`: the process that wrote the entry. `producer`: of copied batches. `transactions`: of
    the tasks. `guard`: of the transactions; None: there are none. `topic`: of all rows; None:
    each row names its own, or an earlier release wrote the entry.
    """

    batch_id: int
    writer: str
    producer: ProducerIdAndEpoch
    parts: tuple[PartitionBatches, ...] = ()
    transactions: tuple[TransactionalProducer, ...] = ()
    guard: TransactionalProducer | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class JournalState:
    """The state after replaying the journal.

    `done`: the last finished batch, -1: none. `decided`: a batch that is not done. `sequences`: the
    next sequences of `producer`, by partition. `done_at`: offset of the done entry; earlier entries
    are obsolete. `guard`: of the batch in progress. `topic`: of the last finished batch.
    """

    done: int = NONE
    decided: DecidedBatch | None = None
    guard: Guard | None = None
    producer: ProducerIdAndEpoch | None = None
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)
    done_at: int = 0
    topic: str | None = None

    def has(self, batch_id: int) -> bool:
        """Return whether the batch is decided or done."""
        return batch_id <= self.done or (self.decided is not None and batch_id <= self.decided.batch_id)


# --- entries


def apply_entry(state: JournalState, entry: Mapping[str, Any], offset: int = 0) -> JournalState:
    """Return the state after one more entry, at `offset`. A late entry changes nothing.

    Raises: KeyError, TypeError, ValueError: not an entry.
    """
    if entry["version"] != VERSION:
        raise ValueError(f"version {entry['version']!r}")
    batch_id = int(entry["batch"])
    if entry["kind"] == "opened":
        return state
    if entry["kind"] == "decided":
        if batch_id <= state.done or state.decided is not None:
            return state
        decided = _decided_of(entry, batch_id)
        if decided.guard is not None and (state.guard is None or state.guard.producer != decided.guard):
            return state  # the guard was given up, and with it what was written under it
        return replace(state, decided=decided)
    if entry["kind"] == "guard":
        return _guarded(state, Guard(batch_id, int(entry["number"]), _producer_of(entry["producer"])))
    if entry["kind"] == "abandoned":
        return _abandoned(state, Guard(batch_id, int(entry["number"]), None), str(entry["writer"]))
    if entry["kind"] != "done":
        raise ValueError(f"kind {entry['kind']!r}")
    if batch_id <= state.done:
        return state
    sequences = {TopicPartition(topic, int(partition)): int(next) for topic, partition, next in entry["sequences"]}
    producer = ProducerIdAndEpoch(*map(int, entry["producer"]))
    return JournalState(batch_id, producer=producer, sequences=sequences, done_at=offset, topic=_topic_of(entry))


def _guarded(state: JournalState, guard: Guard) -> JournalState:
    """Take over a guard; the first one of each number is valid."""
    if state.has(guard.batch_id) or guard.number != next_guard(state, guard.batch_id):
        return state
    return replace(state, guard=guard)


def _abandoned(state: JournalState, guard: Guard, writer: str) -> JournalState:
    """Give up a batch, for those who follow its decision, or a guard, before the decision only."""
    if guard.batch_id <= state.done or state.guard is None or state.guard[:2] != guard[:2]:
        return state
    if state.decided is not None and state.decided.writer != writer:
        return state
    return replace(state, decided=None, guard=guard)


def next_guard(state: JournalState, batch_id: int) -> int:
    """Return the number of the next guard of a batch; -1: it has one that is in use."""
    if state.guard is None or state.guard.batch_id != batch_id:
        return 0
    return state.guard.number + 1 if state.guard.producer is None else -1


def _producer_of(row: Any) -> TransactionalProducer:
    transactional_id, id, epoch = row
    return TransactionalProducer(str(transactional_id), int(id), int(epoch))


def _decided_of(entry: Mapping[str, Any], batch_id: int) -> DecidedBatch:
    parts = []
    for topic, partition, since, sequence, batches in entry["parts"]:
        topic_partition = TopicPartition(str(topic), int(partition))
        parts.append(
            PartitionBatches(
                topic_partition,
                int(since),
                int(sequence),
                tuple(StagedBatch(topic_partition, *map(int, batch)) for batch in batches),
            )
        )
    guard = entry.get("guard")
    return DecidedBatch(
        batch_id,
        str(entry["writer"]),
        ProducerIdAndEpoch(*map(int, entry["producer"])),
        tuple(parts),
        tuple(map(_producer_of, entry.get("transactions", ()))),
        None if guard is None else _producer_of(guard),
        _topic_of(entry),
    )


def _topic_of(entry: Mapping[str, Any]) -> str | None:
    topic = entry.get("topic")
    return None if topic is None else str(topic)


def decided_entry(decided: DecidedBatch) -> dict[str, Any]:
    """Return the entry of a decision."""
    parts = [
        [
            *part.topic_partition,
            part.since,
            part.sequence,
            [[one.staging_partition, one.offset, one.size, one.rows] for one in part.batches],
        ]
        for part in decided.parts
    ]
    head = {"version": VERSION, "kind": "decided", "batch": decided.batch_id, "writer": decided.writer}
    entry = {**head, "producer": list(decided.producer), "parts": parts, "topic": decided.topic}
    if decided.guard is None:
        return entry
    return {**entry, "transactions": [list(one) for one in decided.transactions], "guard": list(decided.guard)}


def guard_entry(batch_id: int, number: int, producer: TransactionalProducer) -> dict[str, Any]:
    """Return the entry that proposes a guard of a batch."""
    return {"version": VERSION, "kind": "guard", "batch": batch_id, "number": number, "producer": list(producer)}


def abandoned_entry(guard: Guard, writer: str = "") -> dict[str, Any]:
    """Return the entry that gives up a guard and, if its `writer` is named, a decision."""
    head = {"version": VERSION, "kind": "abandoned", "batch": guard.batch_id}
    return {**head, "number": guard.number, "writer": writer}


def opened_entry() -> dict[str, Any]:
    """Return the first entry, whose time tells when the journal was created."""
    return {"version": VERSION, "kind": "opened", "batch": NONE}


def done_entry(state: JournalState, sequences: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Return the entry that marks `state.decided` done.

    Args:
        sequences: the next sequences; other partitions keep theirs.
    """
    assert state.decided is not None
    known = {**state.sequences, **sequences}
    rows = [[*topic_partition, next] for topic_partition, next in sorted(known.items())]
    producer = list(state.decided.producer)
    return {
        "version": VERSION,
        "kind": "done",
        "batch": state.decided.batch_id,
        "producer": producer,
        "sequences": rows,
        "topic": state.decided.topic,
    }


# --- where they are kept


def bounds(client: Client, topic_partition: TopicPartition) -> tuple[int, int]:
    """Return the log start and log end of a partition. Raises: ClientError."""
    begin, end = (client.offsets({topic_partition: which})[topic_partition].offset for which in (EARLIEST, LATEST))
    return begin or 0, end or 0


class Journal:
    """The journal of a query and its staging partitions. Other processes may append concurrently.

    All methods raise ClientError, and StagingLost if the topic does not hold a journal.
    Thread: one at a time.
    """

    def __init__(self, client: Client, query_id: str) -> None:
        self.client = client
        self.query_id = query_id
        self.topic = PREFIX + query_id
        self.topic_partition = TopicPartition(self.topic, JOURNAL)

    def exists(self) -> bool:
        """Return whether the topic exists."""
        return self._topic_metadata() is not None

    def _topic_metadata(self) -> TopicMetadata | None:
        return self.client.metadata(pattern=self.topic.replace(".", r"\.")).topics.get(self.topic)

    def open(self, staging_partitions: int) -> int:
        """Create the topic if it does not exist; return the number of staging partitions."""
        name = self.topic
        try:
            topic = self._topic_metadata()
            if topic is None:
                topic = self.client.create_topics([NewTopic(name, 1 + staging_partitions, settings=SETTINGS)]).topics[
                    name
                ]
                self.append(opened_entry())
        except BrokerRefused as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            topic = self.client.metadata([name]).topics[name]
        if len(topic.partitions) < 2:
            raise StagingLost(f"topic {name!r} is no staging topic: it has 1 partition; delete it, or rename it")
        return len(topic.partitions) - 1

    def read(self) -> JournalState:
        """Return the current state."""
        for _ in range(READS_MAX):
            with contextlib.suppress(FetchOutOfRange):
                return self._replayed()
        return self._replayed()

    def _replayed(self) -> JournalState:
        state = JournalState()
        for offset, entry in self._entries():
            try:
                state = apply_entry(state, entry, offset)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise StagingLost(
                    f"the journal {self.topic_partition} holds an entry that can't be read ({error!r}): "
                    f"{str(entry)[:200]}"
                ) from None
        return state

    def _entries(self) -> Iterable[tuple[int, Any]]:
        at, end = bounds(self.client, self.topic_partition)
        while at < end:
            fetched = self.client.fetch(
                {self.topic_partition: at}, partition_max_bytes=64 * 1024 * 1024, max_bytes=64 * 1024 * 1024
            )[self.topic_partition]
            begin = at
            for position, header in iter_batches(fetched.records):
                for record in iter_records(fetched.records, position):
                    if at <= record.offset:
                        try:
                            yield record.offset, json.loads(record.value or b"")
                        except ValueError:
                            raise StagingLost(
                                f"the journal {self.topic_partition} holds at {record.offset} what is no JSON"
                            ) from None
                at = header.next_offset
            if at == begin:
                raise StagingLost(
                    f"the journal {self.topic_partition} ends at {end}, but from {at} on there is nothing"
                )

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append an entry. A lost response can duplicate it, which does not change the state."""
        builder = BatchBuilder("zstd")
        builder.append(wall_ms(), None, json.dumps(entry, separators=(",", ":")).encode())
        batch = builder.build()
        self.client.produce({self.topic_partition: batch}, repeatable=True)

    def drop(self, before: Mapping[int, int]) -> None:
        """Delete the records before these offsets, by partition."""
        self.client.delete_records({TopicPartition(self.topic, index): offset for index, offset in before.items()})
