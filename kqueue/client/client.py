"""`Client`: the calls, as a program makes them."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from kqueue.base.errors import CorruptBatch
from kqueue.client.calls.configs import ConfigEntry, DescribeTopics
from kqueue.client.calls.create_topics import CreateTopics, NewTopic
from kqueue.client.calls.delete_records import DeleteRecords
from kqueue.client.calls.delete_topics import DeleteTopics
from kqueue.client.calls.fetch import Fetch, FetchedRecords
from kqueue.client.calls.group_offsets import CommitOffsets, FetchCommitted, OffsetAndMetadata
from kqueue.client.calls.init_producer_id import InitProducerId, ProducerIdAndEpoch
from kqueue.client.calls.list_groups import GroupListing, ListGroups
from kqueue.client.calls.list_offsets import MAX_TIMESTAMP, ListOffsets, OffsetAndTimestamp
from kqueue.client.calls.produce import Buffer, Produce, ProduceResult
from kqueue.client.deadline import Deadline
from kqueue.client.metadata import ClusterMetadata
from kqueue.client.options import ClientOptions, MiB
from kqueue.client.routing import Router
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.batch import iter_batches

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: dict[str, int] = {"read_uncommitted": 0, "read_committed": 1}
Places = Mapping[TopicPartition, int]


class Client:
    """A blocking client of a Kafka cluster or of kqueue. Nothing is connected before the first
    call.

    Args: options: as an object, or `bootstrap` as text with the others as keywords:
    ``Client("localhost:9092", timeout_ms=5_000)``.

    For one thread at a time: a call while another is under way raises RuntimeError; let each
    thread, and each process, have its own (`options` can be pickled). It has one connection per
    broker, and makes it anew when it was lost.

    What all calls have in common. `timeout_ms`: for all of it, with everything that is tried again;
    None: `options.timeout_ms`. Where partitions are asked for, a plain ``(topic, partition)`` does.
    Raises: BrokerRefused: the broker's answer is an error that asking again does not help;
    ConnectionLost: the answer was lost, and the call can't be repeated without, perhaps, doing it
    twice; DeadlinePassed: after all that was tried, what was asked may have been done or not;
    IncompatibleBroker; BadAnswer: it is no broker. All are ClientErrors.
    """

    def __init__(self, options: ClientOptions | str, **keywords: Any) -> None:
        self.options = ClientOptions(bootstrap=options, **keywords) if isinstance(options, str) else options
        self._router = Router(self.options)
        self._busy = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.options.bootstrap}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client has connections, which can't be sent elsewhere: send its `options`, and make a client of them there"
        )

    def clone(self) -> Self:
        """A client with the same options and connections of its own, for another thread."""
        return type(self)(self.options)

    def close(self) -> None:
        """Hang up; twice is harmless, and a call after it connects anew."""
        self._router.close()

    # --- reading

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        timeout_ms: int | None = None,
    ) -> ClusterMetadata:
        """The cluster's brokers, and these topics with their partitions and leaders; None: all
        topics; none: the brokers alone.

        With `pattern`: the topics that it matches (see `ClusterMetadata.matching`), which may be none;
        matched here, not by the broker. Raises: BrokerRefused: a topic that was named is not there;
        ClientError.
        """
        with self._call(timeout_ms) as deadline:
            found = self._router.metadata(None if topics is None else list(dict.fromkeys(topics)), deadline)
        if pattern is None:
            return found
        topics = {name: found.topics[name] for name in found.matching(pattern)}
        return ClusterMetadata(found.brokers, topics, found.cluster_id, found.controller, found.failed)

    def topic_id(self, name: str) -> bytes:
        """The 16 bytes of a topic's id as this client last heard of it; all zero: it has not, or no
        broker says it. Asks nobody.
        """
        return self._router.cluster.topic_id(name)

    def offsets(
        self, asked: Places, *, isolation: Isolation = "read_uncommitted", timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """For each partition EARLIEST, LATEST, MAX_TIMESTAMP, or the first offset from a time on
        (ms since 1970).

        Raises: BrokerRefused: there is no such partition; ClientError.
        """
        call = ListOffsets(_level(isolation), by_greatest_time=MAX_TIMESTAMP in asked.values())
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_leaders(call, asked, deadline)

    def fetch(
        self,
        asked: Places,
        *,
        max_bytes: int = 50 * MiB,
        partition_max_bytes: int = 8 * MiB,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        isolation: Isolation = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, FetchedRecords]:
        """Record batches of each partition from an offset on, of all leaders at the same time.

        Args: max_bytes: of one leader's answer; partition_max_bytes: of one partition; either may be passed by one batch. Partitions
            that come first are filled first: who goes on with the same ones should turn their order.
            min_bytes, max_wait_ms: a leader answers once it has so much, or this time is over.
        Returns: something for every partition, with empty `records` where there is nothing. In read_committed it ends at the last stable
            offset, and aborted records are among it: `FetchedRecords.aborted` says which.
        Raises: FetchOutOfRange: an offset before the log's start or beyond its end; `done` has what other partitions gave. ClientError.
        """
        call = Fetch(
            isolation=_level(isolation),
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
        )
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_leaders(call, asked, deadline)

    # --- writing

    def init_producer(self, *, timeout_ms: int | None = None) -> ProducerIdAndEpoch:
        """A new id for batches that are appended once, however often they are sent (see
        `BatchBuilder`).
        """
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_any(InitProducerId(), deadline)

    def produce(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        repeatable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ProduceResult]:
        """Append a batch to each partition, of all leaders at the same time.

        Args: batches: one batch of magic 2 for each, which is sent as it is. acks: -1: answered when all replicas in sync have it; 1: when
            the leader has it; 0: not answered, nobody knows. repeatable: it does no harm if a batch is appended twice.
        A repeatable batch, or one with a producer's id and sequence, is sent again until it is known to be there; another one only where it
        is certain that it is not there yet.
        Raises: CorruptBatch: not exactly one batch; nothing was sent. ClientError: `done` has the partitions that have theirs.
        """
        if acks not in (-1, 0, 1):
            raise ValueError(f"acks={acks}: expected -1, 0 or 1")
        for place, batch in batches.items():
            _check_batch(place, batch)
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_leaders(Produce(acks, repeatable=repeatable), batches, deadline)

    def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int | None = None) -> ClusterMetadata:
        """Create topics; returns once each of their partitions has a leader, with their metadata.

        Raises: BrokerRefused: of the first that was refused (others may have been made);
        ClientError.
        """
        names = [topic.name for topic in topics]
        with self._call(timeout_ms) as deadline:
            self._router.send_to_controller(CreateTopics(topics, deadline), deadline)
            return self._router.led(names, deadline)

    def delete_topics(self, names: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics. Raises: BrokerRefused: of the first that was refused (others may be gone);
        ClientError.
        """
        with self._call(timeout_ms) as deadline:
            self._router.send_to_controller(DeleteTopics(list(dict.fromkeys(names)), deadline), deadline)

    def delete_records(self, before: Places, *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Drop what lies before an offset (-1: the high watermark) of each partition; returns where
        their logs begin now.

        Raises: BrokerRefused: an offset beyond the high watermark, …; ClientError.
        """
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_leaders(DeleteRecords(), before, deadline)

    # --- groups

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, timeout_ms: int | None = None
    ) -> None:
        """Store a group's offsets, of the next record that is wanted. Raises: BrokerRefused: the
        group has members; ClientError.
        """
        rows = {
            TopicPartition(*place): one if isinstance(one, OffsetAndMetadata) else OffsetAndMetadata(one)
            for place, one in offsets.items()
        }
        with self._call(timeout_ms) as deadline:
            self._router.send_to_coordinator(group, CommitOffsets(group, rows), deadline)

    def committed(
        self,
        group: str,
        places: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed for these partitions (None: all); those without anything are
        left out.

        Args: stable: wait for transactions that are about to commit offsets (from Kafka 2.5 on).
        """
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(group, FetchCommitted(group, places, stable=stable), deadline)

    def groups(self, *, timeout_ms: int | None = None) -> dict[str, GroupListing]:
        """All groups of the cluster, by their names, sorted: those with members, and those that
        have committed something.

        Raises: BrokerRefused: a broker is not ready to tell, however long it was asked;
        ClientError: one can't be reached, so that groups might be missing.
        """
        with self._call(timeout_ms) as deadline:
            answers = self._router.send_to_all(ListGroups(), deadline)
        return {group.name: group for group in sorted(group for listed in answers.values() for group in listed)}

    # --- settings

    def configs(
        self, topics: Iterable[str], names: Sequence[str] | None = None, *, timeout_ms: int | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        """The settings in force of these topics, all or by name; one that the broker does not know
        is left out.

        Raises: BrokerRefused: there is no such topic; ClientError.
        """
        with self._call(timeout_ms) as deadline:
            return self._router.send_to_any(DescribeTopics(list(dict.fromkeys(topics)), names), deadline)

    @contextlib.contextmanager
    def _call(self, timeout_ms: int | None) -> Iterator[Deadline]:
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "a client is for one thread at a time: another call is under way; make one client per thread"
            )
        try:
            yield Deadline(self.options.timeout_ms if timeout_ms is None else timeout_ms)
        finally:
            self._busy.release()


def _level(isolation: str) -> int:
    if isolation not in ISOLATION_LEVELS:
        raise ValueError(f"isolation={isolation!r}: expected {' or '.join(ISOLATION_LEVELS)}")
    return ISOLATION_LEVELS[isolation]


def _check_batch(place: TopicPartition, batch: Buffer) -> None:
    sizes = [header.size for _, header in iter_batches(batch)]
    if sizes != [len(batch)]:
        raise CorruptBatch(
            f"{TopicPartition(*place)}: expected exactly one batch, found {len(sizes)} in {len(batch)} bytes"
        )
