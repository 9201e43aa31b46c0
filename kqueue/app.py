"""The server as a whole: starts storages, metadata store, broker and listeners, and stops them
without losing data.

`Server._build` is the order of the start, `Server.stop` that of the end. What a start has opened is
on an exit stack, which closes it in reverse, also where the start fails half-way.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kqueue.api import handler_table
from kqueue.api.request_logger import SAMPLE, SLOW_MS, RequestLogger
from kqueue.base import events
from kqueue.base.clock import Clock, OffsetClock, SystemClock, monotonic_s
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.extras import install_hint
from kqueue.base.issued_ids import IssuedIds
from kqueue.base.promise import Promise
from kqueue.base.text import counted
from kqueue.base.version import __version__
from kqueue.broker.broker import Broker
from kqueue.broker.metadata.identity import node_id
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.snapshots import Snapshot, take_snapshot
from kqueue.config import plugins
from kqueue.config.data_folders import data_folders, open_cluster_store, open_metadata_store, open_storages
from kqueue.config.exposure import check_exposure
from kqueue.config.listeners import parse_listeners
from kqueue.config.metrics_listener import NAMES_MAX, MetricsListener, metrics_listener
from kqueue.config.metrics_push import ENDPOINT, MetricsPush, metrics_push
from kqueue.log.folders.data_folders import cluster_id_of
from kqueue.log.manager import LogManager, OfflineFolder
from kqueue.metadata import MetadataStore
from kqueue.metadata.store import ClusterStore
from kqueue.network.advance import Advanced, advance_time
from kqueue.network.client_log import ClientLog
from kqueue.network.connection_quotas import ConnectionQuotas
from kqueue.network.connections import ConnectionRegistry, SessionLimits
from kqueue.network.contract import ManagedConnection
from kqueue.network.dispatch import Dispatcher
from kqueue.network.interception import BrokerHooks, with_hooks
from kqueue.network.listeners import Listeners
from kqueue.network.loop_driver import LoopDriver
from kqueue.network.open_files import OpenFilesGuard
from kqueue.replication.registrations import Endpoint
from kqueue.security.audit import AuditLog
from kqueue.security.protocols import SecurityProtocol
from kqueue.storage import Storage
from kqueue.storage.fault_injection import FaultInjectingStorage
from kqueue.workers.executor import JobExecutor
from kqueue.workers.job_steps import run_in_job, run_in_jobs
from kqueue.workers.watchdog import Watchdog

if TYPE_CHECKING:
    from kqueue.api.request_meter import RequestMeter
    from kqueue.broker.access.client_quotas import ClientQuotas
    from kqueue.broker.member import Member
    from kqueue.interbroker.replica_fetchers import ReplicaFetchers
    from kqueue.network.peer_connections import PeerConnections
    from kqueue.telemetry.service import MetricsService

T = TypeVar("T")
STOP_POLL_S = 0.005
THREADS = "background.threads"
logger = logging.getLogger("kqueue.server")


class Server:
    """One broker that serves its listeners on the running event loop, which must have `add_reader`
    (Windows: a SelectorEventLoop).

    Args:
        storages, store: used in place of those that `config` names, e.g. memory that outlives a
            restart. The caller closes them.
        objects: plugins besides those that `config` names, registered until the stop.
        hooks: intercept requests and changes of files.
        snapshot: begin with a copy of it, unless it was used already. Storages and store must be
            empty then.
        sockets: bound or listening sockets, by the names of their listeners, used in place of new
            ones. The server owns them.
    Thread: `start` and `stop` are called once each, on the loop's thread.

    A start that fails leaves nothing behind: no port, lock or thread.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        storages: Sequence[Storage] | None = None,
        store: MetadataStore | None = None,
        objects: plugins.PluginObjects | None = None,
        hooks: BrokerHooks | None = None,
        snapshot: Snapshot | None = None,
        sockets: Mapping[str, Sequence[socket.socket]] | None = None,
    ) -> None:
        self.config = config.copy()  # its dynamic values are those of this server
        self._objects = objects or plugins.PluginObjects()
        self.clock = clock or SystemClock()
        self._storages = storages
        self._store = store
        self._hooks = hooks
        self._snapshot = snapshot
        self.issued = IssuedIds()
        """Set before the start, to share it with brokers that may have the same data."""
        self._sockets = sockets or {}
        self._cleanup = ExitStack()
        self._stopping = False
        self._member: Member | None = None
        self._fetchers: ReplicaFetchers | None = None
        self.peers: PeerConnections | None = None
        self.metrics: MetricsService | None = None
        self._listeners: Listeners
        self.broker: Broker
        self.connections: ConnectionRegistry
        self.loop_driver: LoopDriver
        self.jobs: JobExecutor

    async def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Open the data and serve; returns once clients can connect.

        After a crash logs are recovered beside the clients: see `ready`. Blocks the loop while
        metadata are read.

        Args: loop: used in place of the running loop for callbacks, readers and writers.
        Raises: SettingError, FolderInUse (another broker has a data folder), ListenFailed,
            StorageFailed.
        """
        began = monotonic_s()
        with self._cleanup as cleanup:
            try:
                self._build(loop or asyncio.get_running_loop(), cleanup)
                self._listeners.start()
            except Exception:
                await self._finish_jobs_of_refused_start()
                raise
            self._cleanup = cleanup.pop_all()
        events.BROKER_STARTED.log(
            logger,
            "kqueue %s serves %s; data in %s (%.2f s)",
            version=__version__,
            listeners=self._listeners,
            data=self._data_location(),
            seconds=monotonic_s() - began,
        )
        if self.metrics is not None and self.metrics.address is not None:
            events.METRICS_OPENED.log(logger, "metrics and health at %s", address=self.metrics.address)

    async def _finish_jobs_of_refused_start(self) -> None:
        """Finish what was begun before what they use is closed: else each logs an error of its own,
        which hides why the start is refused.
        """
        if hasattr(self, "jobs"):
            self.jobs.cancel_cpu()
            await self.jobs.drain()

    async def ready(self) -> None:
        """Wait until all logs are recovered, or refused, and all groups loaded."""
        await self.result(self.broker.ready)

    async def stop(self, *, erase: bool = False) -> None:
        """Accept no more clients, finish the requests under way, send their responses, flush
        everything and mark the stop as clean. A second call does nothing.

        Responses have `kqueue.stop.timeout.ms`; the disk has all the time it needs.

        Args:
            erase: delete all topics, records, groups, offsets, dynamic settings and ACLs once all
                connections are closed.
        Raises: StorageFailed: not everything could be written. All is closed nevertheless.
        """
        if self._stopping:
            return
        self._stopping = True
        events.BROKER_STOPPING.log(logger, "stopping")
        with self._cleanup:
            # First, while everything is still served: others take the leaderships over, so that
            # clients find a leader when the connections end.
            await self._leave_cluster()
            # No new clients and no new requests; those under way are finished below.
            self._listeners.close()
            for session in list(self.connections.sessions):
                session.stop_reading()
            if self._fetchers is not None:
                self._fetchers.close()
            # Compactions and recoveries are begun again at the next start.
            self.jobs.cancel_cpu()
            self.broker.prepare_stop()
            await self._finish_jobs()
            # Flushes have ended, so what waited for them has its response.
            await self._send_responses()
            # Closed connections end share sessions: the records that these release are persisted,
            # too.
            self.connections.close()
            await self._finish_jobs()
            if erase:
                self.broker.erase()
                await self._finish_jobs()
            self._watchdog.stop()  # what follows may block the loop
            # The mark of a clean stop comes last: it says that nothing was written after it.
            self.broker.stop()
            self.loop_driver.stop()
            if self._member is not None:  # no sign of life begins any more
                await run_in_job(self._member.stop, self.jobs, "end the session", "cluster session")
        events.BROKER_STOPPED.log(logger, "stopped")

    def kill(self) -> None:
        """End as a process does that gets SIGKILL: nothing more is handled, sent, flushed or
        written, and others learn it by the end of connections and of the session.

        The given `loop` must run nothing of this server any more. Blocks for the jobs under way.
        """
        self._stopping = True
        self.close_descriptors()
        self.connections.sessions.clear()
        self.jobs.cancel_cpu()
        if self.broker.tier is not None:
            self.broker.tier.stop()  # else its jobs go on for as long as the store lets them
        self.jobs.stop(drop=True)
        self.broker.metadata.cache.stop()
        self.broker.configs.loggers.restore()
        self.broker.logs.abandon()
        if self._member is not None:
            self._member.abandon()
        self._cleanup.close()

    @property
    def listener_names(self) -> list[str]:
        """The names of the listeners, in the order of the settings."""
        return self._listeners.names

    def bound(self, listener: str) -> tuple[str, int]:
        """Return host and real port that the listener of this name is bound to."""
        bound_listener = self._listeners[listener]
        return bound_listener.plan.bind.host, bound_listener.port

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Return the advertised host and port of the listener of this name."""
        return self._listeners[listener].endpoint

    def protocol(self, listener: str) -> SecurityProtocol:
        """Return the security protocol of the listener of this name."""
        return self._listeners[listener].plan.protocol

    def reload_certificates(self) -> None:
        """Use what is in the files of all key stores and trust stores now.

        Raises: SettingError: a store can't be used; the listener goes on with the one before.
        """
        self._listeners.reload_certificates()

    def accept_from(self, listener: str, bound: socket.socket) -> None:
        """Serve the connections of one more socket as those of the listener of this name. The
        server owns the socket from now on.

        Raises: ListenFailed.
        """
        self._listeners.accept_from(listener, bound)

    def share_sockets(self) -> dict[str, list[socket.socket]]:
        """Return second descriptors of the listening sockets, by listener, for the `sockets` of the
        next server. The caller closes them.
        """
        return self._listeners.share()

    async def result(self, promise: Promise[T]) -> T:
        """Wait for a promise. Returns its result; raises the error with which it fails."""
        if not promise.done:
            settled = asyncio.Event()
            self.broker.scheduler.purgatory.add(
                DelayedOperation((promise,), None, lambda expired: promise.done or None), lambda done: settled.set()
            )
            await settled.wait()
        return promise.result()

    async def advance(self, ms: float) -> None:
        """Advance the server's virtual time by `ms` milliseconds (>= 0); see `advance_time`.

        Raises: RuntimeError: the server uses the machine's clock, or it is stopping.
        """
        if not isinstance(self.clock, OffsetClock):
            raise RuntimeError("the clock of this server can't be advanced: it is the machine's")
        if self._stopping:
            raise RuntimeError("the broker is stopping")
        advance_time(ms, self.clock, [self.advanced], self._watchdog.suspended)

    @property
    def advanced(self) -> Advanced:
        """The parts that move with the server's time."""
        return Advanced(self.broker.scheduler.timers, self.loop_driver, self.jobs)

    async def snapshot(self, folder: str) -> None:
        """Copy all data into `folder`; see `snapshots.take_snapshot`. Clients are served meanwhile.

        Raises: SnapshotRefused, StorageFailed.
        """
        copying = take_snapshot(self.broker.metadata.cache, self.broker.logs, folder)
        await run_in_jobs(copying, self.jobs, "copy for a snapshot", "snapshots")

    def close_descriptors(self) -> None:
        """Close this process's copies of all sockets, in a process that was forked from the
        server's, so that they belong to the server alone. Nothing is unregistered: the child shares
        the loop's selector with the parent.
        """
        self._listeners.close_descriptors()
        for session in self.connections.sessions:
            session.close_descriptor()
        if self.peers is not None:
            self.peers.close_descriptors()
        if self.metrics is not None:
            self.metrics.close_descriptor()

    # --- start

    def _build(self, loop: asyncio.AbstractEventLoop, cleanup: ExitStack) -> None:
        config = self.config
        cleanup.enter_context(plugins.register_plugins(config, self._objects))
        plans = parse_listeners(config)
        check_exposure(config, plans)
        listener, push = metrics_listener(config), metrics_push(config)
        self._listeners = Listeners(plans, config, self.clock, self._sockets)
        self._listeners.bind(cleanup)  # first: a port in use must leave no new folder
        quotas = ConnectionQuotas.of(config)
        self._loop = loop
        self.jobs = JobExecutor(loop, config[THREADS])
        config.observe([THREADS], lambda: self.jobs.resize(config[THREADS]))
        cleanup.callback(self.jobs.stop)
        self.broker = self._build_broker(cleanup)
        security = self.broker.security
        security.audit = AuditLog(self.clock)
        security.authorizer = plugins.open_authorizer(config, self._objects, lambda: security.acls.index)
        meter = _open_meter(listener, push)
        self.connections = self._build_connections(loop, quotas, meter)
        self.connections.audit = security.audit
        cleanup.callback(self.connections.close)
        guard = OpenFilesGuard(loop, self.connections)
        cleanup.callback(guard.stop)
        guard.start()
        self._listeners.open(self.connections, quotas, cleanup)
        self.broker.identity.endpoints = self.endpoint
        self.broker.identity.listeners = {name: Endpoint(*self.endpoint(name)) for name in self.listener_names}
        if self._member is not None:
            self._connect_peers(loop, cleanup)
        # After the addresses are known, which the registration in a cluster names; before the
        # listeners accept, so that no request meets a broker without metadata.
        self.broker.start()
        self._listeners.authenticate(self.broker)
        self.loop_driver = LoopDriver(
            loop, self.clock, self.broker.scheduler.timers, self.broker.scheduler.purgatory, self.connections.flush
        )
        cleanup.callback(self.loop_driver.stop)
        self.jobs.run_pass = self.loop_driver.run_pass
        self._watchdog = Watchdog(loop, config["kqueue.watchdog.ms"], plugins.plugin_sources)
        cleanup.callback(self._watchdog.stop)
        self._watchdog.start()
        if meter is not None:
            self._export_metrics(listener, push, meter, cleanup)

    def _export_metrics(
        self, listener: MetricsListener | None, push: MetricsPush | None, meter: RequestMeter, cleanup: ExitStack
    ) -> None:
        from kqueue.base.histogram import Histogram
        from kqueue.broker.replicas.flush_meter import FlushMeter
        from kqueue.network.tls_context import TlsSettings, build_context
        from kqueue.telemetry.samples import Sources
        from kqueue.telemetry.service import MetricsService

        flushes = self.broker.replicas.host.flush_meter = FlushMeter()
        self.connections.measure()
        sources = Sources(
            self.broker,
            meter,
            flushes,
            self.connections,
            jobs=lambda: self.jobs.under_way,
            is_stopping=lambda: self._stopping,
            loop_delay=Histogram(),
            names_max=self.config[NAMES_MAX],
        )
        self.metrics = MetricsService(sources, self._on_owner)
        cleanup.callback(self.metrics.stop)
        if listener is not None:
            tls = build_context(TlsSettings.of(listener.plan, self.config)).context if listener.uses_tls else None
            self.metrics.listen(listener, tls)
        if push is not None:
            self.metrics.push_to(push)
        self.metrics.start()

    def _connect_peers(self, loop: asyncio.AbstractEventLoop, cleanup: ExitStack) -> None:
        """Let the broker reach the others of its cluster, and copy what they lead."""
        from kqueue.network.cluster_peers import connect_peers  # on use: a single broker does not need them

        self.peers, self._fetchers = connect_peers(self.broker, loop, self._listeners.peer_security())
        cleanup.callback(self.peers.close)
        cleanup.callback(self._fetchers.close)

    def _build_broker(self, cleanup: ExitStack) -> Broker:
        config, rng, issued = self.config, random.Random(), self.issued
        storages, offline = (self._storages, []) if self._storages else open_storages(config, self._objects, self.jobs)
        if self._snapshot is not None and not self._snapshot.used:
            self._snapshot.fill(storages, node_id(config))
        if self._hooks is not None:
            storages = [FaultInjectingStorage(storage, self._hooks.storage) for storage in storages]
        cluster = open_cluster_store(config, self._objects)
        if cluster is not None:
            return self._build_member(cluster, storages, offline, rng, cleanup)
        logs = self._open_logs(storages, offline, rng, cleanup)
        store = self._store
        if store is None:
            store = open_metadata_store(config, self._objects, logs.offline)
            cleanup.callback(store.close)
        if self._snapshot is not None and not self._snapshot.used:
            self._snapshot.fill_store(store)
            issued = issued.for_copy()
        broker = Broker(config, logs, store, clock=self.clock, jobs=self.jobs, rng=rng, issued=issued)
        broker.scheduler.wake = self._on_owner
        return broker

    def _build_member(
        self,
        cluster: ClusterStore,
        storages: Sequence[Storage],
        offline: Sequence[OfflineFolder],
        rng: random.Random,
        cleanup: ExitStack,
    ) -> Broker:
        from kqueue.broker.cluster.registration import join_cluster
        from kqueue.broker.member import Member  # on use: a single broker does not need them

        if self._objects.cluster is None:
            cleanup.callback(cluster.close)
        cluster_id = join_cluster(cluster, ((one.location, cluster_id_of(one)) for one in storages), rng)
        logs = self._open_logs(storages, offline, rng, cleanup, cluster_id)
        broker = Broker(self.config, logs, cluster, clock=self.clock, jobs=self.jobs, rng=rng, issued=self.issued)
        broker.scheduler.wake = self._on_owner
        broker.member = self._member = Member(broker, cluster, rng)
        cleanup.callback(self._member.stop)
        return broker

    def _open_logs(
        self,
        storages: Sequence[Storage],
        offline: Sequence[OfflineFolder],
        rng: random.Random,
        cleanup: ExitStack,
        cluster_id: str | None = None,
    ) -> LogManager:
        config = self.config
        logs = LogManager(
            storages,
            offline=offline,
            cluster_id=cluster_id,
            clock=self.clock,
            rng=rng,
            node_id=node_id(config),
            producer_expiration_ms=config["producer.id.expiration.ms"],
            producer_ids_max=config["kqueue.max.producer.ids"],
            jobs=self.jobs,
            reserve_bytes=config["kqueue.disk.reserve.bytes"],
        )
        cleanup.callback(logs.close)
        return logs

    def _on_owner(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    def _build_connections(
        self, loop: asyncio.AbstractEventLoop, quotas: ConnectionQuotas, meter: RequestMeter | None
    ) -> ConnectionRegistry:
        broker, config = self.broker, self.config
        client_log = ClientLog(logger, self.clock)
        lookup = handler_table.lookup
        if config["kqueue.as.version"] is not None:
            from kqueue.api.version_profiles import VersionProfile  # on use: few brokers have one

            lookup = VersionProfile(config["kqueue.as.version"]).lookup
        dispatcher = Dispatcher(
            broker,
            broker.scheduler.purgatory,
            client_log,
            lookup if broker.security.authorizer is None else handler_table.guarded_lookup(lookup),
            plain_bytes_max=config["kqueue.request.max.bytes"],
            items_max=config["kqueue.request.max.items"],
        )
        if meter is not None:
            dispatcher.count(meter)

        def bound_clients(of_clients: ClientQuotas) -> None:
            quotas.clients = of_clients
            dispatcher.bound_clients(of_clients)

        broker.security.observe_quotas(bound_clients)

        def closed(session: ManagedConnection) -> None:
            quotas.release(session.host)
            broker.share.connection_closed(session)

        connections = ConnectionRegistry(
            loop,
            self.clock,
            broker.scheduler.timers,
            self.jobs,
            SessionLimits.of(config),
            client_log,
            with_hooks(dispatcher, self._hooks, client_log),
            closed=closed,
        )
        self._log_requests(dispatcher, connections)
        return connections

    def _log_requests(self, dispatcher: Dispatcher, connections: ConnectionRegistry) -> None:
        """Let requests be logged while a setting asks for it."""
        config, rng = self.config, random.Random()

        def apply() -> None:
            to_log = RequestLogger(self.clock, rng, slow_ms=config[SLOW_MS], sample=config[SAMPLE])
            dispatcher.log_requests(to_log if to_log.is_active else None)
            connections.notes_arrivals = to_log.is_active

        config.observe((SLOW_MS, SAMPLE), apply)
        apply()

    def _data_location(self) -> str:
        if self._storages or self.config["kqueue.storage"] == "memory":
            return ", ".join(storage.location for storage in self._storages or ()) or "memory"
        return ", ".join(str(Path(folder).resolve()) for folder in data_folders(self.config))

    # --- stop

    async def _leave_cluster(self) -> None:
        """Serve on until others have taken what they can, for at most `kqueue.stop.timeout.ms`."""
        if self._member is None:
            return
        relieved = self.result(self._member.leave())
        try:
            await asyncio.wait_for(relieved, self.config["kqueue.stop.timeout.ms"] / 1000)
        except TimeoutError:
            events.LEADERSHIPS_NOT_TAKEN.log(logger, "stopping though other brokers have not taken all leaderships")

    async def _finish_jobs(self) -> None:
        """Run all that is ready, and the jobs that this starts: appended batches are flushed, and
        the responses that wait for the flush complete.
        """
        self.loop_driver.run_now()
        # A flush that waits some turns for more appends is no job yet.
        while self.jobs.under_way or self.loop_driver.has_ready:
            await self.jobs.drain()
            self.loop_driver.run_now()

    async def _send_responses(self) -> None:
        """Complete the deferred responses that have a deadline, and wait until clients have
        received all responses, for at most `kqueue.stop.timeout.ms`.

        Responses without a deadline, as that of a member that waits for its group, stay incomplete:
        no more requests are read that could complete them.
        """
        for session in list(self.connections.sessions):
            session.expire()
        deadline_s = monotonic_s() + self.config["kqueue.stop.timeout.ms"] / 1000
        self.connections.flush()
        while (unsent := self.connections.unsent()) and monotonic_s() < deadline_s:
            await asyncio.sleep(STOP_POLL_S)
        if unsent:
            events.CONNECTIONS_UNANSWERED.log(
                logger, "closing %s that did not take all responses", connections=counted(unsent, "connection")
            )


def _open_meter(listener: MetricsListener | None, push: MetricsPush | None) -> RequestMeter | None:
    """Return what counts requests; None: nobody asks for its counts.

    Raises: SettingError: what exports them is not installed.
    """
    if listener is not None and importlib.util.find_spec("prometheus_client") is None:
        raise SettingError(f"kqueue.metrics.listener needs prometheus-client: {install_hint('metrics')}")
    if push is not None:
        try:
            importlib.import_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
        except ImportError:
            raise SettingError(f"{ENDPOINT} needs opentelemetry-proto: {install_hint('otel')}") from None
    if listener is None and push is None:
        return None
    from kqueue.api.request_meter import RequestMeter

    return RequestMeter()
