"""Whole brokers of a cluster under one seeded scheduler, with faults, and invariants at each step.

Three brokers run in virtual time, with clocks that drift, over a network that delays, cuts and
loses connections, disks that lose power and run full, and a metadata store whose calls fail or have
an unknown outcome. Producers and consumers work meanwhile; topics are created and changed. In the
end all faults end: the replicas must be equal, and what was confirmed must be there once, in order.

A seed determines everything; even seeds flush before anything is visible, odd ones do not.

    python -m kqueue.tests.simulation.cluster_simulation --seeds 100000 --jobs 4
    python -m kqueue.tests.simulation.cluster_simulation --seed 4711 --trace

With `--tier` topics are tiered: see `tier_simulation`.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import click

from kqueue.interbroker.errors import PeerError
from kqueue.log.log_state import LogState
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.simulation.cluster_faults import ClusterFaults, FolderCopy
from kqueue.tests.simulation.cluster_invariants import ClusterInvariants, Key, batches
from kqueue.tests.simulation.event_queue import DriftingClock, EventQueue
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_broker import BrokerProcess, SimulatedBroker
from kqueue.tests.simulation.simulated_clients import Client, Consumer, Producer, check_delivered
from kqueue.tests.simulation.simulated_coordination import Bank, BankReader, GroupCommitter, check_bank
from kqueue.tests.simulation.simulated_network import Network
from kqueue.tests.simulation.simulated_store import SharedStore
from kqueue.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kqueue.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

BROKERS = 3
STEPS = 40
HEAL_STEPS_MAX = 400
STEP_MS = 120.0
"""A step takes up to this time."""
DRIFT = 0.02
SEEDS_OF_A_TASK = 50
SETTINGS: dict[str, object] = {
    "broker.session.timeout.ms": 900,
    "broker.heartbeat.interval.ms": 250,
    "replica.lag.time.max.ms": 800,
    "replica.fetch.wait.max.ms": 150,
    "replica.fetch.backoff.ms": 60,
    "replica.high.watermark.checkpoint.interval.ms": 400,
    "leader.imbalance.check.interval.seconds": 2,
    "kqueue.disk.reserve.bytes": 0,
    "num.partitions": 1,
    "log.flush.interval.messages": 20,
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 400,
}
COPY_EVERY = 10
"""One of so many seeds has a `FolderCopy`, with `kqueue.flush=group`."""
OFFSETS_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"


class Profile(NamedTuple):
    """The choices of a seed.

    Attributes:
        flush: `kqueue.flush`.
        topics: number of partitions, replication factor and min.insync.replicas of each topic.
        faults: how often something breaks, from 0 to 1 for each step.
        store_failures: see `StoreLink`.
        fetch_bytes: so many at most a follower gets of a partition at once.
        coordinates: whether there are transactions, and offsets of a group.
    """

    flush: str
    topics: tuple[tuple[int, int, int], ...]
    faults: float
    store_failures: float
    fetch_bytes: int
    coordinates: bool

    @classmethod
    def of(cls, seed: int, rng: random.Random) -> Profile:
        """Draw the profile of a seed."""
        factors = [(2, 3, 2)]
        if rng.random() < 0.3:
            factors.append((1, 2, 1))
        if rng.random() < 0.2:
            factors.append((1, 3, 1))
        faults = rng.choice((0.02, 0.08, 0.08, 0.2))
        flush = "group" if seed % 2 == 0 else "kafka"
        store_failures, fetch_bytes = rng.choice((0.0, 0.0, 0.02, 0.15)), rng.choice((200, 1_000_000))
        return cls(flush, tuple(factors), faults, store_failures, fetch_bytes, rng.random() < 0.4)


class ClusterSimulation:
    """One run of a seed.

    Args: trace: called with a line for each thing that happens; None: there is no trace.
    """

    process_type: type[BrokerProcess] = BrokerProcess

    def __init__(self, seed: int, trace: Callable[[str], None] | None = None) -> None:
        self.rng = random.Random(seed)
        self._trace = trace
        self.seed = seed
        self.profile = Profile.of(seed, self.rng)
        self.store_failures = 0.0
        self.queue = EventQueue()
        self.network = Network(self.queue, self.rng)
        self.invariants = ClusterInvariants(min_isr=2)
        self.store = SharedStore(DriftingClock(self.queue), self._committed)
        settings = self._settings()
        self.brokers = {node: self._broker(node, settings) for node in range(1, BROKERS + 1)}
        self.producers = [Producer(self, 1, -1), Producer(self, 2, -1), Producer(self, 3, 1)]
        self.consumers = [Consumer(self, 4), Consumer(self, 5)]
        self.admin = Client(self, 6)
        self.bank, self.bank_reader = Bank(self, 7), BankReader(self, 8)
        self.group = GroupCommitter(self, 9, self._offsets_log)
        self.client_numbers = [client.number for client in (*self.producers, *self.consumers, self.bank, self.group)]
        self.faults = ClusterFaults(self)
        self._names: list[str] = []
        self._violated: InvariantViolated | None = None

    def _settings(self) -> dict[str, object]:
        return {
            **SETTINGS,
            "kqueue.flush": self.profile.flush,
            "replica.fetch.max.bytes": self.profile.fetch_bytes,
        }

    def _broker(self, node: int, settings: dict[str, object]) -> SimulatedBroker:
        rate = 1 + (self.rng.random() - 0.5) * 2 * DRIFT
        return SimulatedBroker(self, node, settings, DriftingClock(self.queue, rate), self.process_type)

    # --- what brokers and clients ask for

    @property
    def node_ids(self) -> list[int]:
        """The ids of all brokers."""
        return list(self.brokers)

    def process_of(self, node: int) -> BrokerProcess | None:
        """Return the process of a broker that runs; None: it does not."""
        broker = self.brokers.get(node)
        return None if broker is None else broker.process

    def ran(self, process: BrokerProcess) -> None:
        """Check a broker after each turn of it."""
        if self._violated is not None:
            raise self._violated
        if process.is_alive:
            self.invariants.check(process)

    def ended(self, process: BrokerProcess) -> None:
        """Forget a process."""
        self.invariants.forget(process)

    def reassign(self, replicas: list[int]) -> None:
        """Ask a broker to move a partition to the first of these brokers, as many as it has."""
        keys = self._all_keys()
        if not keys:
            return
        key = self.rng.choice(keys)
        history = self.invariants.histories[key]
        target = replicas[: len(history.registration.replicas)]
        self.note("reassign", 0, history.name, target)
        partition = ReassignablePartition(partition_index=key[1], replicas=target)
        topic = ReassignableTopic(name=history.name.rpartition("-")[0], partitions=[partition])
        request = AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic])
        self.admin.send(self.admin.any_node(), request, lambda response: None)

    def note(self, what: str, node: int, *details: object) -> None:
        """Pass a line to the trace, if there is one."""
        if self._trace is not None:
            self._trace(f"{self.queue.now_ms:10.3f} {what} {node}: " + ", ".join(map(str, details)))

    def _committed(self, before: Any, after: Any) -> None:
        if self._trace is not None:
            for key, value in after.items():
                self.note("store", 0, key, value)
        try:
            self.invariants.committed(before, after)
        except InvariantViolated as violated:  # a broker takes it for its job's failure: see `ran`
            self._violated = self._violated or violated
            raise

    # --- a run

    def run(self, steps: int = STEPS) -> None:
        """Start the brokers, run `steps` steps with faults, and heal. Raises InvariantViolated."""
        self._start()
        self.store_failures = self.profile.store_failures
        for broker in self.brokers.values():
            if broker.process is not None:
                broker.process.link.failures = self.store_failures
        copy = FolderCopy(self, self.seed, steps) if self.seed % COPY_EVERY == COPY_EVERY - 2 else None
        for _ in range(steps):
            self._work()
            if copy is not None:
                copy.step()
            if self.rng.random() < self.profile.faults:
                self.faults.one()
            self._advance(self.rng.random() * STEP_MS)
        self._heal()

    def _advance(self, ms: float) -> None:
        self.queue.run_until(self.queue.now_ms + ms)
        self.invariants.check_members(self._processes())

    def _processes(self) -> dict[int, BrokerProcess]:
        return {node: broker.process for node, broker in self.brokers.items() if broker.process is not None}

    def _start(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self._until("the brokers start", lambda: all(self._is_ready(node) for node in self.brokers))
        for number, (partitions, factor, min_isr) in enumerate(self.profile.topics):
            name = f"t{number}"
            self._names.append(name)
            self._create(name, partitions, factor, min_isr)
        expected = sum(partitions for partitions, _, _ in self.profile.topics)
        self._until("the topics are created", lambda: len(self.invariants.histories) >= expected)

    def _is_ready(self, node: int) -> bool:
        process = self.process_of(node)
        return process is not None and not process.node.is_paused and process.broker.ready.done

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        for _ in range(HEAL_STEPS_MAX):
            if holds():
                return
            self._advance(STEP_MS)
        raise InvariantViolated(f"this does not come: {what}")

    def _create(self, name: str, partitions: int, factor: int, min_isr: int) -> None:
        settings = self._topic_settings(name, min_isr)
        configs = [CreatableTopicConfig(name=setting, value=value) for setting, value in settings.items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=factor, assignments=[], configs=configs
        )

        def done(response: Any) -> None:
            if isinstance(response, PeerError) or response.topics[0].error_code not in (0, 36):
                self.admin.later(lambda: self._create(name, partitions, factor, min_isr))

        self.admin.send(self.admin.any_node(), CreateTopicsRequest(topics=[topic], timeout_ms=1000), done)

    def _topic_settings(self, name: str, min_isr: int) -> dict[str, str]:
        return {"min.insync.replicas": str(min_isr)}

    def keys(self) -> list[Key]:
        """Return the partitions that producers write to, and that are checked."""
        histories = self.invariants.histories.items()
        return [key for key, history in histories if not history.is_over and not history.name.startswith("__")]

    def _all_keys(self) -> list[Key]:
        return [key for key, history in self.invariants.histories.items() if not history.is_over]

    def _offsets_log(self) -> PartitionRegistration | None:
        histories = self.invariants.histories.values()
        offsets_history = next((history for history in histories if history.name == f"{OFFSETS_TOPIC}-0"), None)
        return None if offsets_history is None or offsets_history.is_over else offsets_history.registration

    def _work(self) -> None:
        keys = self.keys()
        if not keys:
            return
        for client in self.producers:
            if self.rng.random() < 0.6:
                client.produce(keys[int(self.rng.random() * len(keys))])
        consumer = self.consumers[int(self.rng.random() * len(self.consumers))]
        consumer.read(keys[int(self.rng.random() * len(keys))])
        if self.profile.coordinates:
            self._coordinate(keys)

    def _coordinate(self, keys: list[Key]) -> None:
        source, target = self.rng.choice(keys), self.rng.choice(keys)
        if source != target and self.rng.random() < 0.7:
            self.bank.transfer(source, target, commits=self.rng.random() < 0.7)
        self.bank_reader.read(target)
        first = next(iter(self.invariants.histories))
        (self.group.commit if self.rng.random() < 0.7 else self.group.check)("t0", first)

    # --- the end

    def _heal(self) -> None:
        """End all faults. What was sent must be confirmed, and the replicas must be equal."""
        self.note("heal", 0)
        self.faults.end()
        self._until("all batches are confirmed", self._has_sent)
        self._until("the replicas are equal", self._is_equal)
        for consumer in self.consumers[:1]:
            self._until("everything is read", lambda consumer=consumer: self._has_read(consumer))  # type: ignore[misc]
        self.check_delivered()
        if self.profile.coordinates:
            self._check_coordination()

    def _check_coordination(self) -> None:
        """Check the transactions, and the offsets of the group, unless their log was lost."""
        histories = self.invariants.histories
        lost = {history.name for history in histories.values() if history.is_over}
        if f"{TRANSACTIONS_TOPIC}-0" not in lost:
            self._until("the transaction ends", lambda: self.bank.is_idle)
            self._until("all transactions are read", lambda: self._has_read(self.bank_reader))
            check_bank(self.bank, self.bank_reader, histories)
        if self._offsets_log() is not None:
            self._until("the group's offset is read", self._has_checked)

    def _has_checked(self) -> bool:
        self.group.check("t0", next(iter(self.invariants.histories)))
        return self.group.is_checked

    def check_delivered(self) -> None:
        """Check what producers were confirmed. Raises InvariantViolated."""
        check_delivered(self.producers, self.invariants.histories)

    def _has_sent(self) -> bool:
        return not any(producer.sending for producer in self.producers)

    def _is_equal(self) -> bool:
        return all(self._is_partition_equal(key) for key in self._all_keys())

    def _is_partition_equal(self, key: Key) -> bool:
        history = self.invariants.histories[key]
        if set(history.registration.isr) != set(history.registration.replicas) or history.registration.adding:
            return False
        replicas = []
        for node in history.registration.replicas:
            process = self.process_of(node)
            topic = None if process is None else process.broker.topics.find_by_id(key[0])
            partition = None if topic is None else topic.partitions[key[1]]
            if partition is None or not partition.is_open or partition.log.health.state is LogState.OFFLINE:
                return False
            if partition.high_watermark != partition.log_end_offset:
                return False
            replicas.append(partition)
        start = max(partition.log.local_start_offset for partition in replicas)
        logs = [batches(partition, start, partition.log_end_offset) for partition in replicas]
        return all(log == logs[0] for log in logs)

    def _has_read(self, consumer: Consumer | BankReader) -> bool:
        behind = [key for key in self.keys() if consumer.positions.get(key, 0) < self.invariants.histories[key].end]
        for key in behind:
            consumer.read(key)
        return not behind


# --- many runs


class _Errors(logging.Handler):
    """Keeps the first error that brokers log with a traceback, which nothing may cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and self.first is None:
            self.first = self.format(record)


class _Lines(logging.Handler):
    def __init__(self, trace: Callable[[str], None]) -> None:
        super().__init__(logging.DEBUG)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace(f"           {record.levelname}: {record.getMessage()}")


Run = Callable[[int, Callable[[str], None] | None], ClusterSimulation]


def run_seed(
    seed: int, steps: int = STEPS, trace: Callable[[str], None] | None = None, make: Run = ClusterSimulation
) -> str | None:
    """Run a seed. Returns: what was violated; None: nothing."""
    logger = logging.getLogger("kqueue")
    level, propagates, handlers = logger.level, logger.propagate, logger.handlers
    errors = _Errors()
    logger.handlers = [errors] if trace is None else [errors, _Lines(trace)]
    logger.setLevel(logging.ERROR if trace is None else logging.INFO)
    logger.propagate = False
    try:
        make(seed, trace).run(steps)
        return errors.first
    except InvariantViolated as violated:
        return str(violated)
    except Exception:
        return traceback.format_exc()
    finally:
        logger.handlers, logger.propagate = handlers, propagates
        logger.setLevel(level)


def run_seeds(seeds: range, steps: int = STEPS, make: Run = ClusterSimulation) -> Iterator[tuple[int, str | None]]:
    """Run seeds one by one; yield each with what was violated, or None."""
    for seed in seeds:
        yield seed, run_seed(seed, steps, make=make)


def _run_task(seeds: range, steps: int, tier: bool) -> list[tuple[int, str]]:
    return [(seed, violated) for seed, violated in run_seeds(seeds, steps, _kind(tier)) if violated is not None]


def _kind(tier: bool) -> Run:
    """Return what runs a seed, with a tier or without."""
    if not tier:
        return ClusterSimulation
    from kqueue.tests.simulation.tier_simulation import TierSimulation  # it is made of this module

    return TierSimulation


def trace_of(seed: int, steps: int = STEPS, make: Run = ClusterSimulation) -> list[str]:
    """Return all that happens with a seed, a line for each; the violation, if any, is the last."""
    lines: list[str] = []
    violated = run_seed(seed, steps, lines.append, make)
    return lines if violated is None else [*lines, f"VIOLATED: {violated}"]


@click.command()
@click.option("--seeds", default=1000, help="How many seeds to run.")
@click.option("--first", default=0, help="The first seed.")
@click.option("--steps", default=STEPS, help="Steps of each seed.")
@click.option("--jobs", default=1, help="Processes.")
@click.option("--tier", is_flag=True, help="Topics are tiered, and an object store fails too.")
@click.option("--seed", type=int, help="Run only this seed.")
@click.option("--trace", is_flag=True, help="Print all that happens with --seed, or with the seed that fails.")
@click.option("--keep-going", is_flag=True, help="Go on after a violation, and print them all.")
def main(
    seeds: int, first: int, steps: int, jobs: int, tier: bool, seed: int | None, trace: bool, keep_going: bool
) -> None:
    """Simulate clusters; print a seed that violates an invariant, and how to repeat it."""
    if seed is not None:
        _report(seed, steps, trace, tier)
        return
    failing_seeds: list[int] = []
    parts = [
        range(begin, min(begin + SEEDS_OF_A_TASK, first + seeds))
        for begin in range(first, first + seeds, SEEDS_OF_A_TASK)
    ]
    with contextlib.ExitStack() as stack:
        run: Callable[..., Iterator[list[tuple[int, str]]]] = map
        if jobs > 1:
            pool = stack.enter_context(ProcessPoolExecutor(jobs, initializer=gc.freeze))
            stack.callback(pool.shutdown, cancel_futures=True)
            run = pool.map
        bar = stack.enter_context(click.progressbar(length=seeds, label="seeds", show_pos=True, file=sys.stderr))
        count = len(parts)
        for part, violations in zip(parts, run(_run_task, parts, [steps] * count, [tier] * count), strict=True):
            bar.update(len(part))
            for each, violated in violations:
                failing_seeds.append(each)
                click.echo(f"seed {each}: {violated}")
                if not keep_going:
                    _report(each, steps, trace, tier)
    if failing_seeds:
        raise click.ClickException(f"{len(failing_seeds)} of {seeds:,} seeds violated an invariant: {failing_seeds}")
    click.echo(f"{seeds:,} seeds of {steps} steps: no invariant was violated")


def _report(seed: int, steps: int, trace: bool, tier: bool) -> None:
    lines = trace_of(seed, steps, _kind(tier))
    for line in lines if trace else lines[-1:]:
        click.echo(line)
    if lines and lines[-1].startswith("VIOLATED"):
        options = f"{'--tier ' if tier else ''}--seed {seed} --steps {steps} --trace"
        command = f"python -m kqueue.tests.simulation.cluster_simulation {options}"
        raise click.ClickException(f"seed {seed} violates an invariant; to see all that happens: {command}")
    click.echo(f"seed {seed}: no invariant was violated")


if __name__ == "__main__":
    main()
