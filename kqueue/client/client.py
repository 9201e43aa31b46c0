"""`Client`: the calls of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn, Self, TypeVar

from kqueue.base.config_resources import ConfigChange, ResourceType
from kqueue.base.errors import CorruptBatch
from kqueue.client.calls.contract import NodeCall
from kqueue.client.calls.create_partitions import CreatePartitions
from kqueue.client.calls.create_topics import CreateTopics, NewTopic
from kqueue.client.calls.delete_group import DeleteGroup
from kqueue.client.calls.delete_records import DeleteRecords
from kqueue.client.calls.delete_topics import DeleteTopics
from kqueue.client.calls.describe_classic_group import ClassicGroup, DescribeClassicGroup
from kqueue.client.calls.describe_groups import DescribeGroup, GroupDescription
from kqueue.client.calls.fetch import Fetch, FetchedRecords
from kqueue.client.calls.group_offsets import CommitOffsets, FetchCommitted, FindPending, OffsetAndMetadata
from kqueue.client.calls.init_producer_id import InitProducerId, ProducerIdAndEpoch
from kqueue.client.calls.list_groups import GroupListing, ListGroups
from kqueue.client.calls.list_offsets import ListOffsets, OffsetAndTimestamp
from kqueue.client.calls.produce import Buffer, Produce, ProduceResult
from kqueue.client.calls.reassignments import Refusal
from kqueue.client.calls.resource_configs import AlterResource, DescribeResources, ListResources, SettingRow
from kqueue.client.calls.share_group_offsets import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribeShareOffsets,
    ShareOffset,
)
from kqueue.client.cluster_calls import ClusterCalls
from kqueue.client.deadline import Deadline
from kqueue.client.membership_calls import MembershipCalls
from kqueue.client.metadata import ClusterMetadata
from kqueue.client.options import ClientOptions, MiB
from kqueue.client.routing import Router
from kqueue.client.topic_partition import TopicPartition
from kqueue.client.transaction_calls import TransactionCalls
from kqueue.records.batch import iter_batches

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: dict[str, int] = {"read_uncommitted": 0, "read_committed": 1}
OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
R = TypeVar("R")
PartitionOffsets = Mapping[TopicPartition, int]


class Client:
    """A blocking client of a Kafka or kqueue cluster. The first call opens the first connection.

    Args:
        options: a `ClientOptions`, or `bootstrap` as text with the other options as keywords:
            ``Client("localhost:9092", timeout_ms=5_000)``.

    Attributes:
        transactions: the calls about transactions.
        cluster: the calls about brokers, leaders, replicas, ACLs, quotas and users.
        membership: the requests of a member of a classic group.

    Common to all calls: `timeout_ms` limits the whole call including retries; None:
    `options.timeout_ms`. A plain ``(topic, partition)`` is accepted as a partition.
    Raises: BrokerRefused: the broker's error is not retriable. ConnectionLost: the response was
        lost, and a retry might execute the call twice. DeadlinePassed: the timeout expired; the
        request may or may not have been executed. IncompatibleBroker. BadAnswer: the other side is
        not a broker. All are ClientErrors.
    Thread: one at a time, but for `interrupt`; a concurrent call raises RuntimeError. Use one
        client per thread and per process (`options` can be pickled). A client has one connection
        per broker, and reconnects after a failure.
    """

    def __init__(self, options: ClientOptions | str, **keywords: Any) -> None:
        self.options = ClientOptions(bootstrap=options, **keywords) if isinstance(options, str) else options
        self._router = Router(self.options)
        self.transactions = TransactionCalls(self._router)
        self.cluster = ClusterCalls(self._router)
        self.membership = MembershipCalls(self._router)

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
            "a client has connections, which can't be sent elsewhere: send its `options`, and make a client of "
            "them there"
        )

    def clone(self) -> Self:
        """Return a client with the same options and its own connections, for another thread."""
        return type(self)(self.options)

    def close(self) -> None:
        """Close all connections. A second close does nothing; a later call reconnects."""
        self._router.close()

    def interrupt(self) -> None:
        """Have the call that another thread waits in raise an error soon, and each later one, until
        that thread calls `close`.

        Thread: any.
        """
        self._router.connections.interrupt()

    # --- reading

    def metadata(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        timeout_ms: int | None = None,
    ) -> ClusterMetadata:
        """Return the cluster's brokers, and topics with their partitions and leaders.

        Args:
            topics: None: all topics; empty: brokers only.
            pattern: return only topics that match it (see `ClusterMetadata.matching`); matched in
                the client.
        Raises: BrokerRefused: a named topic does not exist. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            metadata = self._router.metadata(None if topics is None else list(dict.fromkeys(topics)), deadline)
        if pattern is None:
            return metadata
        topics = {name: metadata.topics[name] for name in metadata.matching(pattern)}
        return ClusterMetadata(metadata.brokers, topics, metadata.cluster_id, metadata.controller, metadata.failed)

    def topic_id(self, name: str) -> bytes:
        """Return the 16 bytes of a topic's id from the metadata cache; all zero: unknown."""
        return self._router.cluster.topic_id(name)

    def offsets(
        self, queries: PartitionOffsets, *, isolation: Isolation = "read_uncommitted", timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offset that each query selects.

        Args:
            queries: for each partition EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL,
                LATEST_TIERED, or a timestamp in ms since 1970, which selects the first record at or
                after it.
        Raises: BrokerRefused: a partition does not exist. ClientError.
        """
        call = ListOffsets(_level(isolation), queries.values())
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_leaders(call, queries, deadline)

    def fetch(
        self,
        offsets: PartitionOffsets,
        *,
        max_bytes: int = 50 * MiB,
        partition_max_bytes: int = 8 * MiB,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        isolation: Isolation = "read_uncommitted",
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, FetchedRecords]:
        """Return record batches of each partition from an offset on.

        All leaders are asked in parallel.

        Args:
            offsets: the fetch offset of each partition. Earlier partitions fill the response first:
                a caller that repeats a fetch should rotate their order.
            max_bytes: limit of one leader's response; partition_max_bytes: of one partition. One
                batch may exceed either.
            min_bytes, max_wait_ms: a leader responds once it has this many bytes or this time has
                passed.
        Returns: an entry for every partition, with empty `records` at the end of the log. With
            read_committed it ends at the last stable offset and still contains aborted records: see
            `FetchedRecords.aborted`.
        Raises: FetchOutOfRange: an offset before the log start or beyond the log end; `done` has
            the records of other partitions. ClientError.
        """
        call = Fetch(
            isolation=_level(isolation),
            max_bytes=max_bytes,
            partition_max_bytes=partition_max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
        )
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_leaders(call, offsets, deadline)

    # --- writing

    def init_producer(self, *, timeout_ms: int | None = None) -> ProducerIdAndEpoch:
        """Return a new producer id, with which brokers append each batch once."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(InitProducerId(), deadline)

    def produce(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        repeatable: bool = False,
        transactional_id: str | None = None,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, ProduceResult]:
        """Append one batch to each partition; all leaders in parallel.

        Args:
            batches: one batch of magic 2 per partition, sent unchanged.
            acks: -1: all in-sync replicas have the batch; 1: the leader has it on its disk;
                0: no response.
            repeatable: a duplicate append is acceptable.
            transactional_id: of transactional batches, whose partitions `add_to_transaction` added.
        A batch that is repeatable, or has a producer id and sequence, is retried until a broker
        confirms it. Any other batch is retried only if it is certain that it was not appended.
        Raises: CorruptBatch: not exactly one batch; nothing was sent. ClientError: `done` has the
            partitions that were written.
        """
        if acks not in (-1, 0, 1):
            raise ValueError(f"acks={acks}: expected -1, 0 or 1")
        for topic_partition, batch in batches.items():
            _check_batch(topic_partition, batch)
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_leaders(
                Produce(acks, repeatable=repeatable, transactional_id=transactional_id), batches, deadline
            )

    def create_topics(self, topics: Sequence[NewTopic], *, timeout_ms: int | None = None) -> ClusterMetadata:
        """Create topics; return their metadata once every partition has a leader.

        Raises: BrokerRefused: of the first rejected topic; others may exist. ClientError.
        """
        names = [topic.name for topic in topics]
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_controller(CreateTopics(topics, deadline), deadline)
            return self._router.wait_for_leaders(names, deadline)

    def create_partitions(self, name: str, count: int, *, timeout_ms: int | None = None) -> None:
        """Add partitions to a topic. `count`: how many it has then.

        Raises: BrokerRefused: there is no such topic, or it has as many. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_controller(CreatePartitions(name, count, deadline), deadline)

    def delete_topics(self, names: Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Delete topics.

        Raises: BrokerRefused: of the first rejected topic; others may be deleted. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_controller(DeleteTopics(list(dict.fromkeys(names)), deadline), deadline)

    def delete_records(self, before: PartitionOffsets, *, timeout_ms: int | None = None) -> dict[TopicPartition, int]:
        """Delete the records before an offset; return the new log start offsets.

        Args:
            before: per partition the first offset to keep; -1: the high watermark.
        Raises: BrokerRefused: for example an offset beyond the high watermark. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_leaders(DeleteRecords(), before, deadline)

    # --- groups

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, timeout_ms: int | None = None
    ) -> None:
        """Store a group's offsets, each of the next record to read.

        Raises:
            BrokerRefused: the group has members; `failed` has all partitions that were refused.
            ClientError: as of every call.
        """
        rows = {
            TopicPartition(*topic_partition): position
            if isinstance(position, OffsetAndMetadata)
            else OffsetAndMetadata(position)
            for topic_partition, position in offsets.items()
        }
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_coordinator(group, CommitOffsets(group, rows), deadline)

    def committed(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = True,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, without partitions that have none.

        Args:
            partitions: None: all.
            stable: wait for pending transactional commits (Kafka 2.5 and later).
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(group, FetchCommitted(group, partitions, stable=stable), deadline)

    def pending_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> set[TopicPartition]:
        """Return those partitions whose committed offset an open transaction may replace.

        Raises: IncompatibleBroker: before Kafka 2.5. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(group, FindPending(group, partitions), deadline)

    def groups(self, *, timeout_ms: int | None = None) -> dict[str, GroupListing]:
        """Return all groups of the cluster by name, sorted.

        A group has members, or committed offsets, or both.

        Raises:
            BrokerRefused: a broker was not ready before the timeout.
            ClientError: a broker is unreachable, so groups might be missing.
        """
        with self._router.call(timeout_ms) as deadline:
            listings = self._router.send_to_all(ListGroups(), deadline)
        return {group.name: group for group in sorted(group for listed in listings.values() for group in listed)}

    def describe_group(self, name: str, type: str, *, timeout_ms: int | None = None) -> GroupDescription:
        """Return the state, epochs and members of a group. `type`: "consumer", "share", "streams".

        Raises: BrokerRefused: there is no such group of this type. IncompatibleBroker. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(name, DescribeGroup(name, type), deadline)

    def describe_classic_group(self, name: str, *, timeout_ms: int | None = None) -> ClassicGroup:
        """Return the state and members of a classic group; the state Dead: there is none.

        Raises: BrokerRefused: GROUP_AUTHORIZATION_FAILED, for example. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(name, DescribeClassicGroup(name), deadline)

    def delete_group(self, name: str, *, timeout_ms: int | None = None) -> None:
        """Delete a group of any type, which has no members, with its offsets.

        Raises: BrokerRefused: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            self._router.send_to_coordinator(name, DeleteGroup(name), deadline)

    def share_offsets(self, group: str, *, timeout_ms: int | None = None) -> dict[TopicPartition, ShareOffset]:
        """Return where a share group is in each of its partitions.

        Raises: BrokerRefused: there is no such share group. IncompatibleBroker. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(group, DescribeShareOffsets(group), deadline)

    def alter_share_offsets(
        self, group: str, offsets: PartitionOffsets, *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Refusal]:
        """Set the start offsets of a share group without members; return the outcomes (0: done).

        What the group had acquired or acknowledged from there on is forgotten.
        Raises: BrokerRefused: the group has members. IncompatibleBroker. ClientError.
        """
        rows = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(group, AlterShareOffsets(group, rows), deadline)

    def delete_share_offsets(
        self, group: str, topics: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, Refusal]:
        """Delete the start offsets of a share group without members; return each topic's outcome.

        Raises: as `alter_share_offsets`.
        """
        names = list(dict.fromkeys(topics))
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_coordinator(group, DeleteShareOffsets(group, names), deadline)

    # --- settings

    def configs(
        self,
        kind: ResourceType,
        names: Iterable[str],
        settings: Sequence[str] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, dict[str, SettingRow]]:
        """Return the effective settings of resources of one type, with their sources, by name.

        Args:
            names: of brokers and loggers the broker's id; "": the defaults of all brokers.
            settings: None: all. Settings that the broker does not know are omitted.
        Raises: BrokerRefused: there is no such resource. ClientError.
        """
        resources = list(dict.fromkeys(names))
        # a broker answers for itself only
        parts = [[name] for name in resources] if kind in OF_ONE_BROKER else [resources]
        described: dict[str, dict[str, SettingRow]] = {}
        with self._router.call(timeout_ms) as deadline:
            for part in filter(None, parts):
                described |= self._send_to_resource(kind, part[0], DescribeResources(kind, part, settings), deadline)
        return described

    def alter_configs(
        self,
        kind: ResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Make all changes of a resource's settings, or none.

        Raises: BrokerRefused: INVALID_CONFIG or INVALID_REQUEST, for example. ClientError.
        """
        with self._router.call(timeout_ms) as deadline:
            call = AlterResource(kind, name, changes, validate_only=validate_only)
            self._send_to_resource(kind, name, call, deadline)

    def config_resources(self, kind: ResourceType, *, timeout_ms: int | None = None) -> list[str]:
        """Return the names of the resources of a type that have settings, sorted."""
        with self._router.call(timeout_ms) as deadline:
            return self._router.send_to_any(ListResources(kind), deadline)

    def _send_to_resource(self, kind: ResourceType, name: str, call: NodeCall[R], deadline: Deadline) -> R:
        if kind in OF_ONE_BROKER and name.isdecimal():
            return self._router.send_to_node(int(name), call, deadline)
        return self._router.send_to_any(call, deadline)


def _level(isolation: str) -> int:
    if isolation not in ISOLATION_LEVELS:
        raise ValueError(f"isolation={isolation!r}: expected {' or '.join(ISOLATION_LEVELS)}")
    return ISOLATION_LEVELS[isolation]


def _check_batch(topic_partition: TopicPartition, batch: Buffer) -> None:
    sizes = [header.size for _, header in iter_batches(batch)]
    if sizes != [len(batch)]:
        raise CorruptBatch(
            f"{TopicPartition(*topic_partition)}: expected exactly one batch, found {len(sizes)} in {len(batch)} bytes"
        )
