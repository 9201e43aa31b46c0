"""The server as a whole: storages, store, broker, listeners; how they come up, and how they go down
without losing anything.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from kqueue import __version__
from kqueue.api import version_profiles
from kqueue.base.clock import Clock, OffsetClock, SystemClock
from kqueue.base.errors import SettingError, StorageFailed
from kqueue.base.jobs import IoJob
from kqueue.base.promise import Promise
from kqueue.base.settings import LONG_MAX, Config
from kqueue.broker.broker import Broker, node_id
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.snapshots import Snapshot, take
from kqueue.config import plugins
from kqueue.config.listeners import ListenerConfig, parse_listeners
from kqueue.log.manager import LogManager, OfflineFolder
from kqueue.metadata import MetadataStore
from kqueue.network.advance import push
from kqueue.network.connection_quotas import (
    ClientLog,
    ConnectionQuotas,
    RateLimiter,
    RequestBudget,
    connections_max_within,
    open_files_max,
)
from kqueue.network.connections import ConnectionRegistry, SessionLimits
from kqueue.network.dispatch import Dispatcher
from kqueue.network.interception import BrokerHooks
from kqueue.network.listener import Listener, bind
from kqueue.network.loop_driver import LoopDriver
from kqueue.network.memory_budgets import machine_bytes, within_memory
from kqueue.network.open_files import OpenFilesGuard
from kqueue.network.session import Session
from kqueue.storage import LocalStorage, Storage
from kqueue.storage.descriptor_cache import LIMIT_MIN, DescriptorCache, default_limit
from kqueue.storage.fault_injection import FaultInjectingStorage
from kqueue.workers.executor import JobExecutor
from kqueue.workers.watchdog import Watchdog

T = TypeVar("T")
STOP_LOOK_S = 0.005
logger = logging.getLogger("kqueue.server")


class Server:
    """One broker that serves its listeners on the running event loop, which must have `add_reader`
    (Windows: a SelectorEventLoop).

    Args: storages, store: in place of those that `config` names, e.g. memory that outlives a
    restart; they stay the caller's to close. objects: plugins besides those that `config` names;
    they are there until the stop. hooks: who may look at requests and changes of files, and step
    in. snapshot: begin with a copy of it, unless it was used already; storages and store must be
    empty then. sockets: bound or listening ones, by the names of their listeners, in place of new
    ones; they are the server's from here on. `start` once, `stop` once; both belong to the loop's
    thread. A start that fails leaves nothing behind: no port, lock or thread.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        storages: Sequence[Storage] | None = None,
        store: MetadataStore | None = None,
        objects: plugins.PluginObjects | None = None,
        hooks: BrokerHooks | None = None,
        snapshot: Snapshot | None = None,
        sockets: Mapping[str, socket.socket] | None = None,
    ) -> None:
        self.config = config
        self._objects = objects or plugins.PluginObjects()
        self.clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._storages = storages
        self._store = store
        self._hooks = hooks
        self._snapshot = snapshot
        self._sockets = dict(sockets or {})
        self._listeners: dict[str, Listener] = {}
        self._cleanup = ExitStack()
        self._stopping = False
        self.broker: Broker
        self.hub: ConnectionRegistry
        self.ticker: LoopDriver
        self.jobs: JobExecutor

    async def start(self) -> None:
        """Take over the data and serve; returns once clients can connect.

        Blocks the loop while logs and metadata are read. Raises: SettingError, FolderInUse (another
        broker has a data folder), ListenFailed, StorageFailed.
        """
        began = time.monotonic()
        with self._cleanup as cleanup:
            self._build(cleanup)
            for listener in self._listeners.values():
                listener.start()
            self._cleanup = cleanup.pop_all()
        where = ", ".join(f"{listener.plan.bind.name}://{host}:{port}" for listener, (host, port) in self._places())
        logger.info(
            "kqueue %s serves %s; data in %s (%.2f s)", __version__, where, self._data_place(), time.monotonic() - began
        )

    async def stop(self, *, erase: bool = False) -> None:
        """Let nobody in, finish what is under way, send the answers, write everything down and mark
        the stop as clean.

        With `erase` all topics, records, groups and offsets are deleted, once the last client is
        gone.

        Answers have `kqueue.stop.timeout.ms`; the disk has all the time it needs. Twice is
        harmless. Raises: StorageFailed: not everything could be written; all is closed
        nevertheless.
        """
        if self._stopping:
            return
        self._stopping = True
        logger.info("stopping")
        with self._cleanup:
            for listener in self._listeners.values():
                listener.close()
            for session in list(self.hub.sessions):
                session.stop_reading()
            self.jobs.cancel_cpu()
            self.broker.prepare_stop()
            await self._finish_jobs()
            await self._send_answers()
            self.hub.close()
            await self._finish_jobs()
            if erase:
                self.broker.erase()
                await self._finish_jobs()
            self._watchdog.stop()  # what is left to do needs no loop any more
            self.broker.stop()
        logger.info("stopped")

    @property
    def listener_names(self) -> list[str]:
        """The names of the listeners, as configured, the first one first."""
        return list(self._listeners)

    def bound(self, listener: str) -> tuple[str, int]:
        """Host and real port that the listener of this name is bound to."""
        found = self._listeners[listener]
        return found.plan.bind.host, found.port

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port that clients of this listener are told."""
        return self._listeners[listener].endpoint

    def share_sockets(self) -> dict[str, socket.socket]:
        """Second descriptors of the listening sockets, by listener, for the `sockets` of a server
        that follows; the caller's to close.
        """
        return {name: listener.share() for name, listener in self._listeners.items()}

    async def result(self, promise: Promise[T]) -> T:
        """What `promise` comes to. Raises: the error that it fails with."""
        if not promise.done:
            settled = asyncio.get_running_loop().create_future()
            self.broker.purgatory.add(
                DelayedOperation((promise,), None, lambda expired: promise.done or None), settled.set_result
            )
            await settled
        return promise.result()

    async def push(self, ms: float) -> None:
        """Let `ms` milliseconds (0 or more) pass at once, on the loop's thread, which hears no
        client meanwhile; see `push`.

        Raises: RuntimeError: the server was not given a `OffsetClock`, or it is stopping.
        """
        if not isinstance(self.clock, OffsetClock):
            raise RuntimeError("the clock of this server can't be pushed: it is the machine's")
        if self._stopping:
            raise RuntimeError("the broker is stopping")
        push(ms, self.clock, self.broker.timers, self.ticker, self.jobs, self._watchdog.excused)

    async def snapshot(self, folder: str) -> None:
        """Copy all data into `folder`; see `snapshots.take`. The loop hears no client meanwhile.
        Raises SnapshotRefused, StorageFailed.
        """
        with self._watchdog.excused():
            take(self.broker, folder)

    def abandon(self) -> None:
        """In a process that was forked from the server's: give up the sockets that came along, so
        that they are the server's alone.
        """
        for listener in self._listeners.values():
            listener.abandon()
        for session in self.hub.sessions:
            session.abandon()

    # --- coming up

    def _build(self, cleanup: ExitStack) -> None:
        config = self.config
        cleanup.enter_context(plugins.use(config, self._objects))
        plans = parse_listeners(config)
        self._bind(plans, cleanup)  # first of all: a port that is taken must leave no new folder
        limits = self._connection_limits()
        loop = asyncio.get_running_loop()
        self.jobs = JobExecutor(loop, config["background.threads"])
        cleanup.callback(self.jobs.stop)
        storages, offline = (self._storages, []) if self._storages else self._open_storages()
        if self._snapshot is not None and not self._snapshot.used:
            self._snapshot.fill(storages, node_id(config))
        if self._hooks is not None:
            storages = [FaultInjectingStorage(storage, self._hooks.storage) for storage in storages]
        logs = LogManager(
            storages,
            offline=offline,
            clock=self.clock,
            rng=self._rng,
            node_id=node_id(config),
            producer_expiration_ms=config["producer.id.expiration.ms"],
            producer_ids_max=config["kqueue.max.producer.ids"],
            jobs=self.jobs,
            reserve_bytes=config["kqueue.disk.reserve.bytes"],
        )
        cleanup.callback(logs.close)
        store = self._store or self._open_store(logs.offline, cleanup)
        if self._snapshot is not None and not self._snapshot.used:
            self._snapshot.fill_store(store)
        self.broker = Broker(config, logs, store, clock=self.clock, jobs=self.jobs, rng=self._rng)
        self._make_hub(loop, limits)
        cleanup.callback(self.hub.close)
        watch = OpenFilesGuard(loop, self.hub)
        cleanup.callback(watch.stop)
        watch.start()
        self._open_listeners(plans, limits, cleanup)
        self.broker.endpoints = self.endpoint
        self.broker.start()
        self.ticker = LoopDriver(loop, self.clock, self.broker.timers, self.broker.purgatory, self.hub.flush)
        cleanup.callback(self.ticker.stop)
        self._watchdog = Watchdog(loop, config["kqueue.watchdog.ms"], plugins.sources)
        cleanup.callback(self._watchdog.stop)
        self._watchdog.start()

    def _make_hub(self, loop: asyncio.AbstractEventLoop, limits: ConnectionQuotas) -> None:
        broker = self.broker
        client_log = ClientLog(logger, self.clock)
        self.hub = ConnectionRegistry(
            loop,
            self.clock,
            broker.timers,
            self.jobs,
            SessionLimits.of(self.config),
            RequestBudget(self._memory_limit("queued.max.request.bytes")),
            self._memory_limit("kqueue.queued.max.response.bytes.total") or LONG_MAX,
            client_log,
            Dispatcher(
                broker,
                broker.purgatory,
                client_log,
                version_profiles.lookup_of(self.config["kqueue.as.version"]),
                plain_bytes_max=self.config["kqueue.request.max.bytes"],
                items_max=self.config["kqueue.request.max.items"],
                hooks=self._hooks,
            ).start,
            gone=lambda session: self._gone(session, limits),
        )

    def _memory_limit(self, name: str) -> int | None:
        """The setting in bytes; a default is lowered to what the machine has. None: no limit."""
        limit: int = self.config[name]
        if limit == -1:
            return None
        return limit if self.config.is_set(name) else within_memory(limit, machine_bytes())

    def _gone(self, session: Session, limits: ConnectionQuotas) -> None:
        limits.leave(session.host)

    def _bind(self, plans: list[ListenerConfig], cleanup: ExitStack) -> None:
        for bound in self._sockets.values():
            cleanup.callback(bound.close)
        for plan in plans:
            if plan.bind.name not in self._sockets:
                bound = self._sockets[plan.bind.name] = bind(plan.bind, self.config)
                cleanup.callback(bound.close)

    def _open_listeners(self, plans: list[ListenerConfig], limits: ConnectionQuotas, cleanup: ExitStack) -> None:
        rate = RateLimiter(self.config["max.connection.creation.rate"], self.clock)
        for plan in plans:
            listener = Listener(plan, self._sockets.pop(plan.bind.name), self.hub, limits, rate, self.config)
            cleanup.callback(listener.close)
            listener.open()
            self._listeners[plan.bind.name] = listener
            if not plan.bind.is_loopback:
                logger.warning(
                    "listener %s can be reached from other machines, and kqueue has no security yet: "
                    "whoever connects can read, write and delete everything",
                    plan.bind,
                )

    def _connection_limits(self) -> ConnectionQuotas:
        wanted: int = self.config["max.connections"]
        allowed = connections_max_within(wanted, open_files_max())
        if allowed < wanted and self.config.is_set("max.connections"):
            logger.warning("max.connections is %d, but the limit on open files leaves room for %d", wanted, allowed)
        overrides = parse_overrides(self.config["max.connections.per.ip.overrides"])
        if self.config["max.connections.per.ip"] == 0 and not overrides:
            raise SettingError(
                "max.connections.per.ip=0 admits only the addresses of max.connections.per.ip.overrides, which names none"
            )
        return ConnectionQuotas(allowed, self.config["max.connections.per.ip"], overrides)

    def _open_storages(self) -> tuple[list[Storage], list[OfflineFolder]]:
        make = plugins.storage_factory(self.config, self._objects)
        if self.config["kqueue.storage"] == "memory":
            return [make("")], []
        storages: list[Storage] = []
        offline = []
        for folder in self._folders():
            try:
                storages.append(
                    LocalStorage(folder, self._descriptors(folder)) if make is LocalStorage else make(folder)
                )
            except StorageFailed as error:
                offline.append(OfflineFolder(str(Path(folder).absolute()), error))
        check_distinct(storages)
        warn_of_open_folders(storages)
        return storages, offline

    def _descriptors(self, folder: str) -> DescriptorCache:
        descriptors = DescriptorCache(max(default_limit() // len(self._folders()), LIMIT_MIN))
        queue = str(Path(folder).absolute())
        descriptors.sync_with(
            lambda run: self.jobs.submit(IoJob("write back unsynced files", run, _written_back, queue))
        )
        return descriptors

    def _open_store(self, offline: Sequence[OfflineFolder], cleanup: ExitStack) -> MetadataStore:
        open_store = plugins.metadata_store_factory(self.config, self._objects)
        is_sqlite = self._objects.metadata is None and plugins.metadata_store_name(self.config) == "sqlite"
        store = open_store(store_folder(self._folders(), offline) if is_sqlite else self._folders()[0])
        cleanup.callback(store.close)
        return store

    def _folders(self) -> list[str]:
        folders: list[str] = self.config["log.dirs"] or self.config["log.dir"]
        return folders

    def _places(self) -> list[tuple[Listener, tuple[str, int]]]:
        return [(listener, self.bound(name)) for name, listener in self._listeners.items()]

    def _data_place(self) -> str:
        if self._storages or self.config["kqueue.storage"] == "memory":
            return ", ".join(storage.location for storage in self._storages or ()) or "memory"
        return ", ".join(str(Path(folder).resolve()) for folder in self._folders())

    # --- going down

    async def _finish_jobs(self) -> None:
        """Run all that is ready, and the jobs that it leads to: what was appended is flushed, and
        those who wait for it are answered.
        """
        self.ticker.run_now()
        while self.jobs.under_way:
            await self.jobs.drain()
            self.ticker.run_now()

    async def _send_answers(self) -> None:
        """Answer what waits for a deadline, and let all answers be taken, but not longer than the
        stop may take.

        What still waits then, such as a member for the rest of its group, would wait in vain:
        nobody is read from any more.
        """
        for session in list(self.hub.sessions):
            session.expire()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.config["kqueue.stop.timeout.ms"] / 1000
        self.hub.flush()
        while (unsent := self.hub.unsent()) and loop.time() < deadline:
            await asyncio.sleep(STOP_LOOK_S)
        if unsent:
            logger.warning("closing %d connections that did not take their answers", unsent)


def check_distinct(storages: Sequence[Storage]) -> None:
    """Raises SettingError: two local folders are one, by another spelling, a symbolic link or a
    bind mount.
    """
    found: dict[tuple[int, int], str] = {}
    for storage in storages:
        if isinstance(storage, LocalStorage):
            status = Path(storage.location).stat()
            other = found.setdefault((status.st_dev, status.st_ino), storage.location)
            if other is not storage.location:
                raise SettingError(f"log.dirs: {other} and {storage.location} are the same folder; name it once")


def _written_back(_: None, error: BaseException | None) -> None:
    """What failed is raised by the file's own next use; an error here is a defect."""
    if error is not None:
        logger.error("unsynced files could not be written back", exc_info=error)


def warn_of_open_folders(storages: Sequence[Storage]) -> None:
    """Log a warning for each local data folder that other users can list or write to. Their modes
    are left as they are.
    """
    for storage in storages:
        if not isinstance(storage, LocalStorage) or os.name == "nt":
            continue
        mode = stat.S_IMODE(Path(storage.location).stat().st_mode)
        if mode & (stat.S_IRWXO | stat.S_IWGRP):
            logger.warning(
                "data folder %s can be used by other users (mode %04o); to keep records private: chmod 700",
                storage.location,
                mode,
            )


def store_folder(folders: Sequence[str], offline: Sequence[OfflineFolder]) -> str:
    """The folder of the SQLite store: the first that has it, so that the order of `log.dirs` may
    change; else the first of all.

    Raises StorageFailed: it is on a folder that is offline, or may be.
    """
    from kqueue.metadata.sqlite import FILE_NAME  # on first need: a broker in memory never meets it

    gone: dict[str, StorageFailed] = dict(offline)
    found = next((path for folder in folders if _is_there(path := Path(folder, FILE_NAME))), None)
    if found is None and gone:
        error = next(iter(gone.values()))
        raise StorageFailed(
            f"the metadata store ({FILE_NAME}) is in no data folder, and may be in one that can't be used: {error}"
        )
    path = found or Path(folders[0], FILE_NAME)
    if str(path.parent.absolute()) in gone:
        error = gone[str(path.parent.absolute())]
        raise StorageFailed(f"the data folder with the metadata store ({FILE_NAME}) can't be used: {error}")
    return str(path.parent)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # its folder may not be looked into
        return False


def parse_overrides(entries: Sequence[str]) -> dict[str, int]:
    """Connection limits by numeric address, from ``host:number`` entries. Raises SettingError."""
    limits = {}
    for entry in entries:
        host, _, number = entry.rpartition(":")
        try:
            limit = int(number)
            for found in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM):
                limits[str(found[4][0])] = limit
        except (ValueError, OSError):
            raise SettingError(f"max.connections.per.ip.overrides: expected address:number, found {entry!r}") from None
    return limits
