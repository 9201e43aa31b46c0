"""The invariants of a cluster, checked while it is simulated.

- A high watermark is within its log. What is below it is the same at all brokers: a committed
  offset is written once, and what was read once is read again.
- Each running member of ISR and ELR has all committed records, so the leader has them too.
- ISR and ELR are within the maximal ISR of a leader that may commit.
- One leader for each leader epoch; PE rises by one with each change, LE never falls.
- Nobody is elected who may lack committed records, while fewer than min brokers lost records.

A partition that has lost records rightfully is checked no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kqueue.broker.replicas.partition import Partition
from kqueue.log.log_state import LogState
from kqueue.records.batch import iter_batches
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    NO_LEADER,
    TOPICS_PREFIX,
    BrokerRegistration,
    PartitionRegistration,
    TopicRegistration,
)
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_broker import BrokerProcess

READ_BYTES = 1 << 20
Key = tuple[bytes, int]
"""A partition: id of the topic, and index."""


class Batch(NamedTuple):
    """The identity of a batch in a log."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    base_sequence: int


class History:
    """The knowledge of one partition: `committed` batches by base offset, up to `end`.

    Attributes:
        leaders: by leader epoch, who led.
        min_isr: the lowest that the topic ever had.
        is_over: records were lost rightfully; the partition is checked no more.
        is_deleted: the topic was deleted, which is over then, too.
    """

    def __init__(self, name: str, registration: PartitionRegistration, min_isr: int) -> None:
        self.name = name
        self.registration = registration
        self.min_isr = min_isr
        self.committed: dict[int, Batch] = {}
        self.end = 0
        self.leaders: dict[int, int] = {}
        self.is_over = self.is_deleted = False


class _Checked:
    """Up to where the log of one replica of a process was compared with the history."""

    __slots__ = ("end", "high_watermark")

    def __init__(self) -> None:
        self.end = 0
        self.high_watermark = -1


class ClusterInvariants:
    """Checks brokers and commits as they happen.

    Args: min_isr: `min.insync.replicas` of topics that do not set it.
    Attributes: lossy_crashes: how often a broker registered that may have lost what it confirmed.
    """

    def __init__(self, min_isr: int) -> None:
        self._min_isr = min_isr
        self.histories: dict[Key, History] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        self.lossy_crashes = 0
        self._checked: dict[BrokerProcess, dict[Key, _Checked]] = {}
        self._grown: dict[Key, None] = {}

    # --- the store

    def committed(self, before: Mapping[str, bytes], after: Mapping[str, bytes | None]) -> None:
        """Check a commit to the store."""
        for key, value in after.items():
            if key.startswith(BROKERS_PREFIX):
                self._broker_changed(int(key.removeprefix(BROKERS_PREFIX)), value)
            elif key.startswith(TOPICS_PREFIX):
                name = key.removeprefix(TOPICS_PREFIX)
                old = TopicRegistration.from_bytes(name, before[key]) if key in before else None
                new = None if value is None else TopicRegistration.from_bytes(name, value)
                self._topic_changed(name, old, new)

    def _broker_changed(self, node: int, value: bytes | None) -> None:
        if value is None:
            self.brokers.pop(node, None)
            return
        new, old = BrokerRegistration.from_bytes(node, value), self.brokers.get(node)
        if old is not None and new.epoch < old.epoch:
            raise InvariantViolated(f"the epoch of broker {node} falls from {old.epoch} to {new.epoch}")
        if not new.fenced and (old is None or old.epoch != new.epoch):
            raise InvariantViolated(f"broker {node} registers unfenced: {old} -> {new}")
        if not new.clean and (old is None or old.clean):
            self.lossy_crashes += 1
        self.brokers[node] = new

    def _topic_changed(self, name: str, old: TopicRegistration | None, new: TopicRegistration | None) -> None:
        if old is not None and (new is None or new.id != old.id):
            for index in range(len(old.partitions)):
                history = self.histories[old.id, index]
                history.is_over = history.is_deleted = True
        if new is None:
            return
        min_isr, allows_unclean = int(new.configs.get("min.insync.replicas", self._min_isr)), _allows_unclean(new)
        known = old.partitions if old is not None and old.id == new.id else ()
        for index, registration in enumerate(new.partitions):
            key = (new.id, index)
            if index < len(known):
                history = self.histories[key]
                history.min_isr = min(history.min_isr, min_isr)
                if registration != known[index]:
                    self._check_change(history, known[index], registration, allows_unclean=allows_unclean)
                    history.registration = registration
                    self._grown[key] = None
            else:
                self.histories[key] = History(f"{name}-{index}", registration, min_isr)

    def _check_change(
        self, history: History, old: PartitionRegistration, new: PartitionRegistration, *, allows_unclean: bool
    ) -> None:
        if new.partition_epoch != old.partition_epoch + 1 or new.leader_epoch < old.leader_epoch:
            raise InvariantViolated(f"{history.name}: the epochs do not rise: {old} -> {new}")
        if new.leader != old.leader and new.leader_epoch == old.leader_epoch:
            raise InvariantViolated(f"{history.name}: another leader in the same epoch: {old} -> {new}")
        if new.leader not in (NO_LEADER, old.leader) and new.leader not in {*old.isr, *old.elr}:
            if self.lossy_crashes < history.min_isr and not allows_unclean:
                raise InvariantViolated(
                    f"{history.name}: unclean election after {self.lossy_crashes} lossy crashes: {old} -> {new}"
                )
            history.is_over = True

    # --- brokers

    def forget(self, process: BrokerProcess) -> None:
        """A process has ended."""
        self._checked.pop(process, None)

    def check(self, process: BrokerProcess) -> None:
        """Check the partitions of a process that has done something."""
        checked = self._checked.setdefault(process, {})
        for topic in process.broker.topics:
            for partition in topic.partitions:
                key = (topic.id, partition.index)
                history = self.histories.get(key)
                if history is None or history.is_over:
                    continue
                if not partition.has_replica:
                    checked.pop(key, None)  # a later replica begins anew
                    continue
                if partition.is_leader:
                    self._check_leader(process, partition, history)
                if partition.is_open and partition.log.health.state is not LogState.OFFLINE and not _is_cut(partition):
                    known = checked.get(key)
                    if known is None:
                        known = checked[key] = _Checked()
                    self._check_log(process, partition, key, history, known)

    def _check_leader(self, process: BrokerProcess, partition: Partition, history: History) -> None:
        epoch = partition.leader_epoch
        if history.leaders.setdefault(epoch, process.number) != process.number:
            raise InvariantViolated(
                f"{history.name}: brokers {history.leaders[epoch]} and {process.number} lead in epoch {epoch}"
            )
        leadership, registration = partition.replica.leadership, history.registration
        if leadership is None or leadership.leader_epoch != registration.leader_epoch:
            return
        min_isr = int(process.broker.topics.get(partition.topic).config["min.insync.replicas"])
        if not leadership.is_under_min_isr(min_isr) and not leadership.registration.elr:
            missing = {*registration.isr, *registration.elr} - leadership.maximal_isr
            if missing:
                raise InvariantViolated(f"{history.name}: {missing} in sync or eligible, not counted: {registration}")

    def _check_log(
        self, process: BrokerProcess, partition: Partition, key: Key, history: History, known: _Checked
    ) -> None:
        high_watermark, end = partition.high_watermark, partition.log_end_offset
        if high_watermark > end:
            raise InvariantViolated(f"{history.name}: high watermark {high_watermark} of {process.number} beyond {end}")
        if end < known.end:
            known.end = end
        if high_watermark > known.high_watermark:
            known.high_watermark = high_watermark
            self._compare(process, partition, history, known, high_watermark)
            if high_watermark > history.end:
                history.end = high_watermark
                self._grown[key] = None
        elif high_watermark < known.high_watermark and process.number not in history.registration.isr:
            known.high_watermark = high_watermark  # one that is out of sync may begin again further back
        elif high_watermark < known.high_watermark:
            raise InvariantViolated(
                f"{history.name}: the high watermark of broker {process.number} falls from {known.high_watermark} "
                f"to {high_watermark}"
            )

    def check_members(self, processes: Mapping[int, BrokerProcess]) -> None:
        """Check that in-sync and eligible replicas have what was committed since the last call."""
        grown, self._grown = self._grown, {}
        for key in grown:
            history = self.histories[key]
            if not history.is_over:
                self._check_members(key, history, processes)

    def _check_members(self, key: Key, history: History, processes: Mapping[int, BrokerProcess]) -> None:
        registration = history.registration
        for node in registration.isr + registration.elr:
            process, record = processes.get(node), self.brokers.get(node)
            if process is None or record is None or record.incarnation != process.incarnation:
                continue  # what this process found of its log is not registered yet
            if record.fenced and not record.clean:
                continue
            topic = process.broker.topics.find_by_id(key[0])
            partition = topic.partitions[key[1]] if topic is not None and key[1] < len(topic.partitions) else None
            if partition is None or not partition.is_open or partition.log.health.state is LogState.OFFLINE:
                continue
            if _is_cut(partition):
                self._grown[key] = None  # look again
                continue
            if partition.log_end_offset < history.end:
                raise InvariantViolated(
                    f"{history.name}: broker {node}, in sync or eligible, ends at {partition.log_end_offset}, "
                    f"and {history.end} are committed: {registration}"
                )
            known = self._checked[process].setdefault(key, _Checked())
            known.end = min(known.end, partition.log_end_offset)
            self._compare(process, partition, history, known, history.end)

    def _compare(
        self, process: BrokerProcess, partition: Partition, history: History, known: _Checked, end: int
    ) -> None:
        """Compare the log of a replica with what is committed, up to `end`, and add what is new."""
        committed = history.committed
        known.end = max(known.end, partition.log.local_start_offset)  # what is below is in the tier
        for batch in batches(partition, known.end, end):
            if batch.last_offset < known.end:
                continue
            if committed.setdefault(batch.base_offset, batch) != batch:
                raise InvariantViolated(
                    f"{history.name}: broker {process.number} has {batch}, committed was {committed[batch.base_offset]}"
                )
            known.end = batch.last_offset + 1
        if known.end < end:
            raise InvariantViolated(f"{history.name}: broker {process.number} lacks offset {known.end} of {end}")


def _allows_unclean(topic: TopicRegistration) -> bool:
    return topic.configs.get("unclean.leader.election.enable") == "true"


def _is_cut(partition: Partition) -> bool:
    """Whether the log is being truncated: it serves nothing until that is done."""
    return partition.log.health.state is LogState.ONLINE and partition.log.health.failure is not None


def batches(partition: Partition, start: int, end: int) -> list[Batch]:
    """Return the batches of an open log that begin below `end`, from the one with `start` on."""
    log = partition.log
    batches_read: list[Batch] = []
    while start < end:
        result = log.read(start, READ_BYTES, end_offset=log.end_offset, min_one_batch=True)
        if result.check is not None:
            log.reader.verify_now(result.check)
            continue
        data = result.read()
        before = start
        for _, header in iter_batches(data):
            if header.base_offset >= end:
                return batches_read
            batches_read.append(
                Batch(
                    header.base_offset, header.last_offset, header.leader_epoch, header.crc, header.producer_id,
                    header.base_sequence,
                )
            )  # fmt: skip
            start = header.last_offset + 1
        if start == before:
            break
    return batches_read
