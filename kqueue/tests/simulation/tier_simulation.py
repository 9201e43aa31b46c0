"""Clusters in simulation whose topics are tiered: `cluster_simulation`, with an object store.

Segments have a few batches, disks keep one or two of them, and brokers lose their disks, or go on
copying when others lead already. Calls of the store take their time, hang, fail before or after
they took effect, and return wrong bytes or old lists (`simulated_tier`). Some seeds have retention
of the whole log, DeleteRecords, or unclean elections.

In the end the tier must have all sealed segments and nothing that no manifest names, each disk no
more than `local.retention.*` allows, and a consumer must read each log from its start to its end:
once, in order, through tier and disks.

    python -m kqueue.tests.simulation.cluster_simulation --tier --seeds 1000
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from kqueue.broker.replicas.partition import Partition
from kqueue.interbroker.errors import PeerError
from kqueue.log.log import Log
from kqueue.tests.simulation.cluster_invariants import Batch, Key, batches
from kqueue.tests.simulation.cluster_simulation import STEPS, ClusterSimulation
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_broker import BrokerProcess
from kqueue.tests.simulation.simulated_tier import TierFaults, TierLink, TierObjects
from kqueue.tests.simulation.tier_clients import (
    EveryLogProducer,
    LineageReader,
    LogSweep,
    SweptBatch,
    TierBankReader,
    TierConsumer,
)
from kqueue.tests.simulation.tier_faults import TieredFaults
from kqueue.tests.simulation.tier_invariants import TierInvariants
from kqueue.tests.simulation.tiered_brokers import TieredProcess, simulated_stores
from kqueue.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

SETTINGS: dict[str, object] = {
    "remote.log.storage.system.enable": True,
    "kqueue.tier.url": "memory://simulation",
    "remote.log.manager.task.interval.ms": 150,
    "remote.fetch.max.wait.ms": 100,
    "log.retention.check.interval.ms": 200,
    "log.segment.delete.delay.ms": 50,
}
TURNS_STEP = 12
TURNS_FACTOR = 3
"""Leaders begin to take turns at that step, in a run of so many times the steps of others."""
Topics = tuple[tuple[int, int, int], ...]
TOPICS: tuple[Topics, ...] = (
    ((1, 3, 2),), ((1, 3, 2),), ((1, 3, 1),), ((1, 2, 1), (1, 3, 2)), ((1, 1, 1), (1, 3, 2)),
)  # fmt: skip
ONE_TOPIC: Topics = ((1, 3, 1),)
UNCLEAN_TOPICS: tuple[Topics, ...] = (((1, 3, 2),), ((1, 3, 1),), ((1, 3, 1),), ((1, 2, 1),), ((1, 1, 1), (1, 3, 1)))


class TierProfile(NamedTuple):
    """The choices of a seed, beside those of `Profile`.

    Attributes:
        topics: as in `Profile`.
        settings: of all topics.
        is_unclean, has_retention, deletes: whether there are unclean elections, retention of the
            whole log, DeleteRecords.
        faults: of the store.
        faults_per_step: how often something breaks.
        takes_turns: whether two leaders take turns, each without the other's records.
    """

    topics: Topics
    settings: dict[str, str]
    is_unclean: bool
    has_retention: bool
    deletes: bool
    faults: TierFaults
    faults_per_step: float
    coordinates: bool
    takes_turns: bool

    @classmethod
    def of(cls, rng: random.Random) -> TierProfile:
        """Draw the profile of a seed."""
        is_unclean, has_retention, deletes = rng.random() < 0.4, rng.random() < 0.25, rng.random() < 0.25
        topics = rng.choice(UNCLEAN_TOPICS if is_unclean else TOPICS)
        settings = {
            "remote.storage.enable": "true",
            "segment.bytes": str(rng.choice((200, 350, 600))),
            "local.retention.bytes": str(rng.choice((1, 300, 800))),
            "local.retention.ms": rng.choice(("-2", "-2", "300")),
            "retention.bytes": str(rng.choice((1500, 3000))) if has_retention else "-1",
            "retention.ms": "-1" if rng.random() < 0.8 or not has_retention else "1500",
            "unclean.leader.election.enable": str(is_unclean).lower(),
        }
        if settings["retention.ms"] != "-1" and settings["local.retention.ms"] == "-2":
            settings["local.retention.ms"] = "300"
        faults = TierFaults(
            failures=rng.choice((0.0, 0.05, 0.3)),
            hangs=rng.choice((0.0, 0.0, 0.03)),
            stale=rng.choice((0.0, 0.5)),
            torn=rng.choice((0.0, 0.0, 0.0, 0.02)),
        )
        coordinates = not has_retention and not deletes and rng.random() < 0.3
        takes_turns = is_unclean and rng.random() < 0.3
        faults_per_step = rng.choice((0.03, 0.1, 0.2, 0.35))
        if takes_turns:
            topics, faults_per_step = ONE_TOPIC, 0.02
        return cls(
            topics,
            settings,
            is_unclean,
            has_retention,
            deletes,
            faults,
            faults_per_step,
            coordinates,
            takes_turns,
        )


class TierSimulation(ClusterSimulation):
    """One run of a seed with tiered topics. Attributes: see `TieredHost`."""

    process_type = TieredProcess

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.tier_profile = TierProfile.of(random.Random(f"tier {seed}"))
        super().__init__(seed, trace)
        tiered = self.tier_profile
        self.profile = self.profile._replace(
            topics=tiered.topics, faults=tiered.faults_per_step, coordinates=tiered.coordinates
        )
        self.objects = TierObjects(self.queue)
        self.tier_links: dict[int, TierLink] = {}
        self.tier_faults = tiered.faults
        self.is_tier_away = False
        has_retention = tiered.has_retention
        self.tier_invariants = TierInvariants(self.objects, self.invariants, has_retention=has_retention)
        self.objects.observer = self.tier_invariants
        self.producers[-1] = self.every_log_producer = EveryLogProducer(self, 3, 1)
        self._tier_consumers = [TierConsumer(self, number, self._start_known) for number in (4, 5)]
        self.consumers[:] = self._tier_consumers
        self._lineage_reader = LineageReader(self, 11, self._replica)
        self.bank_reader: TierBankReader = TierBankReader(self, 8)
        self.faults = self._tier_faults = TieredFaults(self)
        self._step = 0

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), **SETTINGS}

    def _topic_settings(self, name: str, min_isr: int) -> dict[str, str]:
        return {**super()._topic_settings(name, min_isr), **self.tier_profile.settings}

    def run(self, steps: int = STEPS) -> None:
        """See `ClusterSimulation`; turns of leaders take more steps."""
        if self.tier_profile.takes_turns:
            steps *= TURNS_FACTOR
        with simulated_stores(self):
            try:
                super().run(steps)
            finally:
                self.close()

    def close(self) -> None:
        """End all processes, and the threads of their jobs."""
        for process in self._processes().values():
            process.end()

    def ran(self, process: BrokerProcess) -> None:
        """See `ClusterSimulation`."""
        super().ran(process)
        if process.is_alive:
            self.tier_invariants.check(process)

    def ended(self, process: BrokerProcess) -> None:
        """See `ClusterSimulation`."""
        super().ended(process)
        self.tier_invariants.forget(process)

    def tiered_keys(self) -> list[Key]:
        """Return the partitions of tiered topics, those that have lost records too."""
        histories = self.invariants.histories.items()
        return [key for key, history in histories if not history.is_deleted and not history.name.startswith("__")]

    def _start_known(self, key: Key) -> int:
        """Return the highest log start that a broker may show."""
        tree = self.tier_invariants.trees.get(key)
        return max(0 if tree is None else tree.root.log_start_offset, self.tier_invariants.deleted_to.get(key, 0))

    def _work(self) -> None:
        super()._work()
        self._step += 1
        if self.tier_profile.takes_turns and self._step == TURNS_STEP:
            leader = self.invariants.histories[self.tiered_keys()[0]].registration.leader
            self._tier_faults.take_turns(self.brokers.get(leader, self.brokers[1]))
        over = [key for key in self.tiered_keys() if self.invariants.histories[key].is_over]
        for key in over:
            if self.rng.random() < 0.6:
                self.every_log_producer.produce(key)
            self._lineage_reader.read(key)
        keys = self.keys()
        if keys and self.rng.random() < 0.2:
            consumer, key = self.rng.choice(self._tier_consumers), self.rng.choice(keys)
            consumer.begin_again(key)
        if keys and self.tier_profile.deletes and self.rng.random() < 0.08:
            key = self.rng.choice(keys)
            self._delete_records(key, int(self.invariants.histories[key].end * self.rng.random()))

    def _delete_records(self, key: Key, offset: int) -> None:
        history, known = self.invariants.histories[key], self.tier_invariants.deleted_to
        known[key] = max(known.get(key, 0), offset)
        self.note("delete records", 0, history.name, offset)
        topic = DeleteRecordsTopic(
            name=history.name.rpartition("-")[0],
            partitions=[DeleteRecordsPartition(partition_index=key[1], offset=offset)],
        )

        def done(response: Any) -> None:
            if isinstance(response, PeerError):
                return
            result = response.topics[0].partitions[0]
            self.note("deleted records", 0, history.name, result.low_watermark, result.error_code)

        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
        self.admin.send(history.registration.leader, request, done)

    # --- the end

    def _heal(self) -> None:
        self._healed_ms = self.queue.now_ms
        self.bank_reader.reads = 1.0
        super()._heal()
        conditions: tuple[tuple[str, Callable[[Key], bool]], ...] = (
            ("takes records", self._takes),
            ("has equal replicas", self._is_partition_equal),
            ("has all sealed segments in the tier", self._is_copied),
            ("has on each disk what it should", self._is_dropped),
            ("starts where its leader does", self._starts_are_equal),
            ("is claimed", self._is_claimed),
        )
        for key in self.tiered_keys():
            for what, holds in conditions:
                self._until(f"{self.invariants.histories[key].name} {what}", partial(holds, key))
            self._check_whole(key)

    def _takes(self, key: Key) -> bool:
        """Whether a log that lost records has confirmed one since; send another."""
        producer = self.every_log_producer
        if not self.invariants.histories[key].is_over:
            return True
        if producer.confirmed.get(key, 0.0) >= self._healed_ms:
            return key not in producer.sending
        producer.produce(key)
        return False

    def _accept_loss(self, key: Key) -> None:
        """Delete what is before the leader's disk, and lacking in the tier, as the broker says.

        One of two unclean elections cut the tier, and the next leader had deleted on its disk what
        was cut.
        """
        partition = self.leader_of(key)
        log = None if partition is None or not partition.is_open else partition.log
        if log is not None and self._agreed_end(key, log) < log.local_start_offset:
            self.note("accept loss", 0, log)
            self._delete_records(key, log.local_start_offset)

    def _agreed_end(self, key: Key, log: Log) -> int:
        """Return the end of what the tier has of a log from its log start on."""
        end = log.start_offset
        for batch in self.tier_invariants.tiered(key):
            if batch.last_offset < end:
                continue
            if batch.base_offset > end or batch.leader_epoch != log.epochs.epoch_at(end):
                break
            end = batch.last_offset + 1
        return end

    def _is_partition_equal(self, key: Key) -> bool:
        partition = self.leader_of(key)
        if key in self.tiered_keys() and (partition is None or not partition.is_open):
            self.every_log_producer.produce(key)  # opens a log that has no other replicas
            return False
        if self.invariants.histories[key].is_over:
            self._accept_loss(key)
        return super()._is_partition_equal(key)

    def leader_of(self, key: Key) -> Partition | None:
        """Return the partition at its leader; None: it has none that runs."""
        registration = self.invariants.histories[key].registration
        return self._replica(key, registration.leader)

    def _replica(self, key: Key, node: int) -> Partition | None:
        process = self.process_of(node)
        topic = None if process is None else process.broker.topics.find_by_id(key[0])
        return None if topic is None else topic.partitions[key[1]]

    def _is_copied(self, key: Key) -> bool:
        partition, tree = self.leader_of(key), self.tier_invariants.trees.get(key)
        if partition is None or not partition.is_open:
            return False
        log = partition.log
        if len(log.segments) == 1 and not log.segments.base_offset and tree is None:
            return True
        if tree is None or tree.root.deleting:
            return False
        if any(segment.key(tree.root.partition) in self.objects.by_key for segment in tree.root.copying):
            return False
        end = self._tier_end(key)
        is_gone = not tree.segments or tree.segments[0].end_offset > tree.root.log_start_offset
        # A transaction whose coordinator lost it stays open where records were lost.
        sealed_end = max(segment.base for segment in log.segments if segment.base <= partition.last_stable_offset)
        is_copied = max(end, log.start_offset) >= sealed_end
        return is_copied and is_gone and log.start_offset == tree.root.log_start_offset

    def _tier_end(self, key: Key) -> int:
        tree = self.tier_invariants.trees.get(key)
        if tree is None:
            return 0
        return tree.segments[-1].end_offset if tree.segments else tree.root.removed_below

    def _starts_are_equal(self, key: Key) -> bool:
        """Whether all replicas start where the leader does. A follower may start later, as a former
        leader did that had no time to say so, or that was followed by an unclean election.
        """
        history, leader = self.invariants.histories[key], self.leader_of(key)
        replicas = [self._replica(key, node) for node in history.registration.replicas]
        if leader is None or not all(replica is not None and replica.is_open for replica in replicas):
            return False
        start, asked_for = leader.log.start_offset, self.tier_invariants.deleted_to.get(key, 0)
        starts = [replica.log.start_offset for replica in replicas if replica is not None]
        return all(other == start or (start < other and (history.is_over or other <= asked_for)) for other in starts)

    def _is_claimed(self, key: Key) -> bool:
        partition, tree = self.leader_of(key), self.tier_invariants.trees.get(key)
        if partition is None or not partition.is_open:
            return False
        return tree is None or tree.root.leader_epoch == partition.leader_epoch

    def _is_dropped(self, key: Key) -> bool:
        """Whether each replica has deleted what it may."""
        allowed = int(self.tier_profile.settings["local.retention.bytes"])
        for node in self.invariants.histories[key].registration.replicas:
            partition = self._replica(key, node)
            if partition is None or not partition.is_open:
                return False
            segments = list(partition.log.segments)
            size = sum(segment.size for segment in segments)
            is_in_tier = len(segments) > 1 and segments[1].base <= self._tier_end(key)
            if is_in_tier and size - segments[0].size >= allowed:
                return False
        return True

    def _check_whole(self, key: Key) -> None:
        """Check the tier and the leader's disk as one log, and read it as a consumer does."""
        history, partition = self.invariants.histories[key], self.leader_of(key)
        assert partition is not None
        log = partition.log
        expected = self._whole_log(key, partition)
        offset = log.start_offset
        for batch in expected:
            if batch.base_offset > offset:
                raise InvariantViolated(
                    f"{history.name}: {batch} comes at {offset}; the log starts at {log.start_offset}"
                )
            offset = batch.last_offset + 1
        if offset != log.end_offset:
            raise InvariantViolated(f"{history.name}: the log ends at {log.end_offset}, its batches at {offset}")
        end = log.end_offset
        sweep = LogSweep(self, 10, key, log.start_offset, end, self._start_known)
        sweep.go_on()
        self._until(f"{history.name} is read from its start to its end", lambda: sweep.is_done)
        start = max(log.start_offset, sweep.skipped_to)
        found = [batch for batch in sweep.batches if start <= batch.base_offset < end]
        kept = [batch for batch in expected if start <= batch.base_offset < end]
        if found != [SweptBatch(batch.base_offset, batch.crc, batch.leader_epoch) for batch in kept]:
            raise InvariantViolated(f"{history.name}: read {found}, expected {kept}")
        if orphans := self.tier_invariants.orphans(key):
            raise InvariantViolated(f"{history.name}: no manifest names {orphans}")

    def _whole_log(self, key: Key, partition: Partition) -> list[Batch]:
        """Return all batches, of the tier and the disk; those in both must be the same."""
        log = partition.log
        found = {batch.base_offset: batch for batch in self.tier_invariants.tiered(key)}
        for batch in batches(partition, log.local_start_offset, log.end_offset):
            if found.setdefault(batch.base_offset, batch) != batch:
                raise InvariantViolated(
                    f"{partition!r}: the disk has {batch}, the tier {found[batch.base_offset]}: {log.epochs.entries()}"
                )
        ordered = [found[offset] for offset in sorted(found) if found[offset].last_offset >= log.start_offset]
        for one, other in pairwise(ordered):
            if other.base_offset != one.last_offset + 1:
                raise InvariantViolated(f"{partition!r}: {other} comes after {one}")
        return ordered
