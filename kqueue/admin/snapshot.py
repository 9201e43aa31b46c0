"""One reading of a whole cluster, repeated: brokers, topics, groups and disks.

What can't be read hides nothing else: it is named in `Snapshot.problems`, and the next reading
tries again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kqueue.admin.cluster_state import NO_LOAD, BrokerLoad, broker_loads, partition_counts
from kqueue.admin.group_lags import GroupProgress, group_progress, with_lag
from kqueue.admin.group_partitions import SHARE
from kqueue.admin.log_dirs import LogDirs, TopicSize, leader_sizes, log_dirs, topic_sizes
from kqueue.admin.log_ends import LogEnds, log_ends
from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.admin.rates import Sample
from kqueue.base.clock import Clock, SystemClock
from kqueue.base.text import counted
from kqueue.client import (
    Client,
    ClusterDescription,
    ClusterMetadata,
    GroupListing,
    LogDir,
    Reassignment,
    TopicPartition,
)
from kqueue.client.errors import BrokerRefused, ClientError, IncompatibleBroker

TIMEOUT_MS = 3_000
GROUPS_MS = 3_000
SLOW_READINGS_EVERY_MS = 5_000
UP, FENCED, SILENT, MISSING = "up", "fenced", "no answer", "missing"


class BrokerState(NamedTuple):
    """A broker of the cluster, or one that replicas name.

    Attributes:
        host, port: None: not known, since the cluster does not list it.
        state: UP, FENCED (registered, leads nothing), SILENT (listed, but did not answer), MISSING
            (only replicas name it).
    """

    id: int
    host: str | None
    port: int | None
    rack: str | None
    state: str
    is_controller: bool
    load: BrokerLoad


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one reading found.

    Attributes:
        sample: log ends, sizes and groups, for `rates.History`.
        counts: numbers of partitions by condition, as `partition_counts` has them, without regard
            to min.insync.replicas.
        sizes: by topic; empty where no broker tells.
        dirs: data folders by broker id.
        groups: all groups by name; `sample.groups` has those that could be read this time.
        problems: a sentence for each kind of thing that could not be read.
    """

    sample: Sample
    metadata: ClusterMetadata
    brokers: Sequence[BrokerState]
    counts: Mapping[str, int]
    sizes: Mapping[str, TopicSize]
    dirs: Mapping[int, Sequence[LogDir]]
    groups: Mapping[str, GroupListing]
    problems: Sequence[str] = ()


@dataclass(slots=True)
class _SlowReadings:
    """What changes seldom, or costs a broker more: read every 5 seconds."""

    due_ms: float = -1.0
    cluster: ClusterDescription | None = None
    dirs: LogDirs = field(default_factory=LogDirs)
    moving: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    is_fresh: bool = False


class SnapshotReader:
    """Reads a cluster again and again.

    Args:
        timeout_ms: of each call to brokers.
        groups_ms: how long the offsets of groups are read for; those that this does not suffice for
            are the first the next time.

    Thread: one at a time, as its client.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        groups_ms: int = GROUPS_MS,
        slow_every_ms: int = SLOW_READINGS_EVERY_MS,
    ) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._timeout_ms = timeout_ms
        self._groups_ms = groups_ms
        self._slow_every_ms = slow_every_ms
        self._slow = _SlowReadings()
        self._groups: dict[str, GroupListing] = {}
        self._read_at_ms: dict[str, float] = {}

    def read(self) -> Snapshot:
        """Return what the cluster has now. Raises: ClientError: no broker returned its metadata."""
        metadata = self._client.metadata(timeout_ms=self._timeout_ms)
        problems: list[str] = []
        self._read_slow(metadata, problems)
        progress = self._read_groups(problems)
        time_ms = self._clock.monotonic_ms()
        ends = log_ends(self._client, metadata.topics.values(), timeout_ms=self._timeout_ms)
        if ends.failed:
            problems.append(
                f"log ends of {counted(len(ends.failed), 'partition')}: {cause_of(next(iter(ends.failed.values())))}"
            )
        dirs = self._slow.dirs.by_broker
        sample = Sample(
            time_ms / 1000,
            ends.ends,
            leader_sizes(dirs, metadata) if self._slow.is_fresh else {},
            {
                name: one if self._groups[name].type == SHARE else with_lag(one, ends.ends)
                for name, one in progress.items()
            },
        )
        return Snapshot(
            sample,
            metadata,
            self._brokers(metadata, ends),
            partition_counts(metadata, self._slow.moving, {}),
            topic_sizes(dirs, metadata),
            dirs,
            dict(self._groups),
            problems,
        )

    def _read_slow(self, metadata: ClusterMetadata, problems: list[str]) -> None:
        slow = self._slow
        now_ms = self._clock.monotonic_ms()
        slow.is_fresh = now_ms >= slow.due_ms
        if slow.is_fresh:
            slow.due_ms = now_ms + self._slow_every_ms
            cluster = self._client.cluster
            slow.dirs = log_dirs(self._client, metadata.brokers, timeout_ms=self._timeout_ms)
            try:
                slow.cluster = cluster.describe(timeout_ms=self._timeout_ms)
                slow.moving = cluster.reassignments(timeout_ms=self._timeout_ms)
            except (IncompatibleBroker, BrokerRefused):
                pass  # an old broker, or a client that may not; the metadata has the most of it
            except ClientError as error:
                problems.append(f"state of brokers: {cause_of(error)}")
        problems += [f"data folders of broker {id}: {cause_of(error)}" for id, error in slow.dirs.failed.items()]

    def _read_groups(self, problems: list[str]) -> dict[str, GroupProgress]:
        """Return where groups are, of those that there is time for: the longest unread first."""
        try:
            self._groups = self._client.groups(timeout_ms=self._timeout_ms)
        except ClientError as error:
            problems.append(f"the list of groups is an older one: {cause_of(error)}")
        self._read_at_ms = {name: at_ms for name, at_ms in self._read_at_ms.items() if name in self._groups}
        end_ms = self._clock.monotonic_ms() + self._groups_ms
        progress: dict[str, GroupProgress] = {}
        failed: dict[str, ClientError] = {}
        for name in sorted(self._groups, key=lambda name: self._read_at_ms.get(name, -1.0)):
            now_ms = self._clock.monotonic_ms()
            if now_ms >= end_ms:
                break
            self._read_at_ms[name] = now_ms
            try:
                progress[name] = group_progress(
                    self._client, self._groups[name], timeout_ms=max(1, min(self._timeout_ms, int(end_ms - now_ms)))
                )
            except ClientError as error:
                failed[name] = error
        if failed:
            name = next(iter(failed))
            problems.append(
                f"offsets of {counted(len(failed), 'group')}, of {name} among them: {cause_of(failed[name])}"
            )
        return progress

    def _brokers(self, metadata: ClusterMetadata, ends: LogEnds) -> list[BrokerState]:
        cluster = self._slow.cluster
        known = {**({} if cluster is None else cluster.brokers), **metadata.brokers}
        fenced = frozenset() if cluster is None else cluster.fenced - metadata.brokers.keys()
        silent = self._silent(metadata, ends)
        loads = broker_loads(metadata)
        states = []
        for id in sorted(known.keys() | loads.keys()):
            node = known.get(id)
            listed = id in metadata.brokers
            state = FENCED if id in fenced else MISSING if not listed else SILENT if id in silent else UP
            host, port, rack = (None, None, None) if node is None else (node.host, node.port, node.rack)
            is_controller = id == metadata.controller
            states.append(BrokerState(id, host, port, rack, state, is_controller, loads.get(id, NO_LOAD)))
        return states

    def _silent(self, metadata: ClusterMetadata, ends: LogEnds) -> set[int]:
        """Return the brokers that the cluster lists, and that did not answer this client."""
        silent = {id for id, error in self._slow.dirs.failed.items() if _is_silence(error)}
        for partition, error in ends.failed.items():
            leader = metadata.topics[partition.topic].partitions[partition.partition].leader
            if _is_silence(error) and leader != NO_LEADER:
                silent.add(leader)
        return silent


def cause_of(error: ClientError) -> ClientError:
    """Return what was met before the timeout of a call expired, or the error itself."""
    return error.__cause__ if isinstance(error.__cause__, ClientError) else error


def _is_silence(error: ClientError) -> bool:
    """Return whether no answer came; a refusal is one, and so is a version that is not served."""
    return not isinstance(cause_of(error), (BrokerRefused, IncompatibleBroker))
