"""A whole broker of a simulated cluster: what survives its crashes, and its present process.

The process is the real broker, with everything that makes it a member: registration, controller,
in-sync sets, replica fetchers, handlers. Disk, clock, jobs, network and store are simulated.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import random
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from kqueue.base.config import Config
from kqueue.base.errors import KqueueError, NodeIdInUse, StorageFailed
from kqueue.base.jobs import CpuJob, IoJob
from kqueue.base.settings import Catalog
from kqueue.broker import config as broker_config
from kqueue.broker.broker import Broker
from kqueue.broker.cluster.registration import join_cluster
from kqueue.broker.member import Member
from kqueue.broker.metadata.identity import node_id
from kqueue.interbroker.coordination import connect_coordinators
from kqueue.interbroker.replica_fetchers import ReplicaFetchers
from kqueue.log.folders.data_folders import cluster_id_of
from kqueue.log.manager import LogManager
from kqueue.network.client_log import ClientLog
from kqueue.replication.registrations import Endpoint
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.tests.simulation.event_queue import DriftingClock, EventQueue
from kqueue.tests.simulation.simulated_network import (
    LISTENER,
    Network,
    NetworkPeers,
    ServerConnection,
    StrictDispatcher,
)
from kqueue.tests.simulation.simulated_store import SharedStore, StoreLink

T = TypeVar("T")
CATALOG = Catalog(broker_config.SETTINGS)
START_AGAIN_MS = 250.0
"""A process that could not start is started again after this time, as by a supervisor."""
LEAVE_MS = 1000.0
"""A controlled shutdown waits so long for other brokers."""
JOB_MS = 2.0
SLOW_JOB_MS = 60.0
SLOW = 0.03
PORT = 9092
logger = logging.getLogger("kqueue.server")


class BrokerHost(Protocol):
    """The objects that the brokers of a simulation share."""

    queue: EventQueue
    network: Network
    store: SharedStore
    rng: random.Random
    store_failures: float

    def process_of(self, node: int) -> BrokerProcess | None:
        """Return the process of a broker that runs."""

    def ran(self, process: BrokerProcess) -> None:
        """A process did something."""

    def ended(self, process: BrokerProcess) -> None:
        """A process has ended."""

    def note(self, what: str, node: int, *details: object) -> None:
        """Pass a line to the trace."""


class SimulatedBroker:
    """One broker of the cluster.

    Attributes:
        process: None: it does not run.
        is_paused: the process runs, and does nothing.
        storage: its disk.
        wants_to_run: whether a process that can't start is started again.
    """

    def __init__(
        self,
        host: BrokerHost,
        number: int,
        settings: dict[str, object],
        clock: DriftingClock,
        process_type: type[BrokerProcess] | None = None,
    ) -> None:
        self.number = number
        self._process_type = process_type or BrokerProcess
        self.clock = clock
        self.storage = FaultyStorage(clock=clock)
        self.process: BrokerProcess | None = None
        self.is_paused = False
        self.wants_to_run = False
        self._copy: FaultyStorage | None = None
        self._host = host
        self._settings: dict[str, object] = {**settings, "node.id": number, "kqueue.cluster.store": "memory"}

    def start(self) -> None:
        """Start a process; it is tried again until it starts."""
        self.wants_to_run = True
        if self.process is not None:
            return
        self._host.note("start", self.number)
        self.is_paused = False
        process = self._process_type(self, self._host, self._settings)
        try:
            process.start()
        except PowerCut:
            self.process = process
            self.lose_power()
        except (StorageFailed, NodeIdInUse) as error:
            self._host.note("can't start", self.number, error)
            self._host.queue.after(START_AGAIN_MS, self._start_again)

    def _start_again(self) -> None:
        if self.wants_to_run:
            self.start()

    def kill(self) -> None:
        """End the process at once. The disk keeps what was written."""
        self._end("kill")
        self.storage.locks.clear()

    def lose_power(self, remains: Remains | None = None) -> None:
        """End the process at once. The disk loses some of what was not flushed."""
        self._end("power cut", remains)
        remains = remains or (Remains.LOST, Remains.TORN, Remains.KEPT)[int(self._host.rng.random() * 3)]
        self.storage = self.storage.after_cut(remains, random.Random(self._host.rng.getrandbits(32)))

    def _end(self, how: str, *details: object) -> None:
        process, self.process = self.process, None
        self.wants_to_run = self.is_paused = False
        self._host.note(how, self.number, *details)
        if process is not None:
            process.end()

    def stop(self) -> None:
        """End the process cleanly, without waiting for the other brokers."""
        process = self.process
        if process is None:
            return
        self._host.note("stop", self.number)
        self.wants_to_run = self.is_paused = False
        try:
            process.stop()
        except PowerCut:
            self.lose_power()
        else:
            self._end("stopped")

    def leave(self) -> None:
        """Begin the controlled shutdown; the process then stops."""
        process = self.process
        if process is not None and not self.is_paused and not process.is_leaving:
            self._host.note("leave", self.number)
            process.execute(process.leave)

    def copy_folder(self) -> None:
        """Copy the data folder, as its files are now. No process may run."""
        assert self.process is None
        self._host.note("copy the folder", self.number)
        self._copy = self.storage.after_cut(Remains.KEPT, random.Random(0))

    def put_back(self) -> None:
        """Put the copy in the place of the data folder. No process may run."""
        assert self.process is None
        assert self._copy is not None
        self._host.note("put the copy back", self.number)
        self.storage = self._copy

    def lose_disk(self) -> None:
        """End the process at once; the next one finds an empty disk."""
        self._end("disk lost")
        self.storage = FaultyStorage(clock=self.clock)

    def pause(self) -> None:
        """Let the process do nothing until `resume`."""
        if self.process is not None and not self.is_paused:
            self._host.note("pause", self.number)
            self.is_paused = True

    def resume(self) -> None:
        """End the pause: all that has become due runs."""
        if self.is_paused:
            self._host.note("resume", self.number)
            self.is_paused = False
            if self.process is not None:
                self.process.resume()


class BrokerProcess:
    """One life of a broker."""

    jobs_type: type[SimulatedJobs]

    def __init__(self, node: SimulatedBroker, host: BrokerHost, settings: dict[str, object]) -> None:
        self.node = node
        self.number = node.number
        self.answered: list[ServerConnection] = []
        self.is_alive = True
        self.is_leaving = False
        self._host = host
        self._settings = settings
        self._jobs = self.jobs_type(self, host)
        self._kept: list[Callable[[], object]] = []  # while it is paused
        self._alarm_ms = float("inf")
        self.link = StoreLink(host.store, host.rng, host.queue)
        self.link.failures = host.store_failures
        self.broker: Broker
        self.dispatcher: StrictDispatcher

    @property
    def incarnation(self) -> str:
        """The random text that names this process in the store."""
        session = self.member.registration.session
        return "" if session is None else session.incarnation

    def start(self) -> None:
        """Start the broker as the server does. Raises: KqueueError: it can't start."""
        rng = random.Random(self._host.rng.getrandbits(64))
        node, config = self.node, Config(CATALOG, self._settings)
        with contextlib.ExitStack() as cleanup:
            folders = [(node.storage.location, cluster_id_of(node.storage))]
            cluster_id = join_cluster(self.link, folders, rng)
            logs = LogManager(
                [node.storage],
                cluster_id=cluster_id,
                clock=node.clock,
                rng=rng,
                node_id=node_id(config),
                producer_expiration_ms=config["producer.id.expiration.ms"],
                producer_ids_max=config["kqueue.max.producer.ids"],
                jobs=self._jobs,
                reserve_bytes=config["kqueue.disk.reserve.bytes"],
            )
            cleanup.callback(logs.close)
            broker = self.broker = Broker(config, logs, self.link, clock=node.clock, jobs=self._jobs, rng=rng)
            broker.identity.endpoints = lambda listener: (f"broker{self.number}", PORT)
            broker.identity.listeners = {LISTENER: Endpoint(f"broker{self.number}", PORT)}
            broker.scheduler.wake = self._wake
            broker.member = self.member = Member(broker, self.link, rng)
            cleanup.callback(self.member.stop)
            peers = NetworkPeers(self._host.network, self, self._host.process_of)
            connect_coordinators(broker, peers)
            self._fetchers = ReplicaFetchers(
                broker.config,
                broker.scheduler,
                broker.metadata.cluster,
                broker.topics,
                broker.replicas.host,
                peers,
            )
            self.dispatcher = StrictDispatcher(broker, broker.scheduler.purgatory, ClientLog(logger, node.clock))
            broker.start()
            cleanup.pop_all()
        node.process = self
        self.execute(_nothing)

    # --- what runs, and when

    def execute(self, call: Callable[[], object]) -> None:
        """Make a call on the owner thread, and all that is ready after it; while the process is
        paused, later.
        """
        if not self.is_alive:
            return
        if self.node.is_paused:
            self._kept.append(call)
            return
        try:
            call()
            self._settle()
        except PowerCut:
            if self.is_alive:
                self.node.lose_power()
            return
        self._host.ran(self)

    def _settle(self) -> None:
        broker = self.broker
        while self.is_alive:
            if (
                broker.scheduler.timers.run_due(self.node.clock.monotonic_ms())
                or broker.scheduler.purgatory.run_ready()
            ):
                continue
            if not self.answered:
                break
            answered, self.answered = self.answered, []
            for connection in answered:
                connection.flush()
        self._set_alarm()

    def _set_alarm(self) -> None:
        deadline_ms = self.broker.scheduler.timers.next_deadline_ms()
        if deadline_ms is None or not self.is_alive:
            return
        time_ms = self.node.clock.time_of(deadline_ms)
        if time_ms < self._alarm_ms:
            self._alarm_ms = time_ms
            self._host.queue.at(time_ms, lambda: self._alarm(time_ms))

    def _alarm(self, time_ms: float) -> None:
        if self._alarm_ms == time_ms:
            self._alarm_ms = float("inf")
            self.execute(_nothing)

    def resume(self) -> None:
        """Make the calls that came during the pause."""
        kept, self._kept = self._kept, []
        for call in kept:
            self.execute(call)
        self.execute(_nothing)

    def _wake(self, call: Callable[[], None]) -> None:
        self._host.queue.after(self._host.network.delay_ms(), lambda: self.execute(call))

    # --- its end

    def end(self) -> None:
        """Do nothing more."""
        self.is_alive = False
        self._kept.clear()
        self._jobs.end()
        self._host.network.gone(self)
        self._host.ended(self)

    def leave(self) -> None:
        """Serve on until others have taken what they can, or for `LEAVE_MS`."""
        self.is_leaving = True
        relieved = self.member.leave()
        until_ms = self._host.queue.now_ms + LEAVE_MS

        def look() -> None:
            if not self.is_alive:
                return
            if not self.node.is_paused and (relieved.done or self._host.queue.now_ms >= until_ms):
                self.node.stop()
            else:
                self._host.queue.after(20, look)

        self._host.queue.after(20, look)

    def stop(self) -> None:
        """Flush everything, and mark the stop as clean."""
        self._fetchers.close()
        self.broker.prepare_stop()
        while self._jobs.run_all() or self.broker.scheduler.purgatory.run_ready():
            pass
        try:
            self.broker.stop()
        except KqueueError as error:
            self._host.note("did not stop cleanly", self.number, error)
        self.member.stop()


class SimulatedJobs:
    """Runs jobs later, those of one queue one after another. Implements `Jobs`."""

    def __init__(self, process: BrokerProcess, host: BrokerHost) -> None:
        self._process = process
        self._host = host
        self._pending: dict[int, IoJob[Any] | CpuJob[Any]] = {}
        self._late: dict[int, Callable[[], object]] = {}  # results that are not told yet
        self._number = 0
        self._free_ms: dict[str, float] = {}

    def submit(self, job: IoJob[T] | CpuJob[T]) -> None:
        """See `Jobs`."""
        self._number += 1
        number = self._number
        self._pending[number] = job
        queue = job.queue if isinstance(job, IoJob) else "processes"
        random = self._host.rng.random
        ms = random() * (SLOW_JOB_MS if random() < SLOW else JOB_MS)
        time_ms = max(self._host.queue.now_ms, self._free_ms.get(queue, 0.0)) + ms
        self._free_ms[queue] = time_ms
        self._host.queue.at(time_ms, lambda: self._run(number))

    def _run(self, number: int) -> None:
        process = self._process
        if process.node.is_paused and process.is_alive:
            process.execute(lambda: self._run_now(number))  # once it is resumed
        elif process.is_alive:
            self._run_now(number)

    def _run_now(self, number: int) -> None:
        job = self._pending.pop(number, None)
        if job is None:
            return
        try:
            finish = _outcome(job)
        except PowerCut:
            if self._process.is_alive:
                self._process.node.lose_power()
            return
        self.tell(number, finish)

    def tell(self, number: int, finish: Callable[[], object]) -> None:
        """Tell a result on the owner thread; sometimes later, maybe after a pause."""
        if self._host.rng.random() < 0.3:
            self._late[number] = finish
            delay_ms = self._host.network.delay_ms()
            self._host.queue.after(delay_ms, lambda: self._process.execute(lambda: self._tell(number)))
        else:
            self._process.execute(finish)

    def end(self) -> None:
        """The process has ended: nothing more is run."""

    def _tell(self, number: int) -> None:
        finish = self._late.pop(number, None)
        if finish is not None:
            finish()

    def run_all(self) -> int:
        """Run all jobs at once; return how many."""
        count = 0
        while self._late:
            self._late.pop(next(iter(self._late)))()
            count += 1
        while self._pending:
            _outcome(self._pending.pop(next(iter(self._pending))))()
            count += 1
        return count


BrokerProcess.jobs_type = SimulatedJobs


def _outcome(job: IoJob[Any] | CpuJob[Any]) -> Callable[[], object]:
    """Do the work of a job; return what tells its result. Raises PowerCut."""
    try:
        result = job.run() if isinstance(job, IoJob) else job.task()
    except Exception as error:
        return functools.partial(job.finish, None, error)
    return functools.partial(job.finish, result, None)


def _nothing() -> None:
    pass
