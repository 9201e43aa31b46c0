"""`kqueue.Broker`: a whole broker in a thread of the caller's process.

The broker runs on its own thread. The methods here may be called from any other thread, and wait
for it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import socket
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from kqueue.app import Server
from kqueue.base.clock import OffsetClock
from kqueue.base.settings import Config, format_value
from kqueue.broker.snapshots import Snapshot
from kqueue.broker.topics import NewTopic
from kqueue.config.plugins import metadata_store_name
from kqueue.config.properties import keyword_name, make_config
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.inspection.mixin import InspectionMixin
from kqueue.embedded.plugin_arguments import GivenStorage, GivenStore, PluginArguments
from kqueue.embedded.request_log import RequestLog
from kqueue.embedded.settings import setting_values, with_bound_ports
from kqueue.groups.assignors import AssignorFactory
from kqueue.log.policies import CleanupPolicy
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import ClusterStore
from kqueue.network.interception import BrokerHooks
from kqueue.records.codecs import Codec
from kqueue.records.partitioners import PartitionerFactory
from kqueue.replication.config import CLUSTER_STORE
from kqueue.storage import MemoryStorage

T = TypeVar("T")
_STOP_AGAIN_S = 0.05
_RUNNING: weakref.WeakSet[Broker] = weakref.WeakSet()


class Broker(InspectionMixin):
    """A Kafka broker for programs and tests: ``with kqueue.Broker() as broker:
    KafkaProducer(bootstrap_servers=broker.bootstrap)``.

    Use ``with`` or ``async with``, or `start` and `stop`. It listens on 127.0.0.1, unless the
    settings name listeners. `restart` keeps the port and the data, in memory too; `stop` drops what
    is in memory. A running broker is stopped when the interpreter ends. In a forked child it still
    belongs to the parent, and can only be connected to.

    `clock` is its time, which a test can advance: ``broker.clock.advance(days=8)``.

    Args:
        path: its data folder, created if missing; None keeps everything in memory.
        port: to listen on; 0 takes a free one.
        settings: by their names, e.g. ``{"log.segment.bytes": 1_048_576}``; the same as keywords:
            ``log_segment_bytes=1_048_576``.
        as_version: serve only the API versions of that Kafka ("2.8", "3.9" or "4.3"), to test
            clients against it.
        snapshot: begin with a copy of this folder (of `snapshot`, or of a stopped Kafka), in
            memory, or in `path`, which must be empty.
        storage, metadata, codecs, partitioners (by name), cleanup_policies, assignors (by name):
            plugins as objects, registered while it runs; see `plugin_arguments`.
        cluster: the metadata store of the cluster that it is a member of, shared with other brokers
            of this process, each with a ``node_id`` of its own. The program closes it.
    Raises: SettingError: an unknown setting (the message suggests the nearest name) or a bad value.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        settings: Mapping[str, object] | None = None,
        as_version: str | None = None,
        snapshot: str | os.PathLike[str] | None = None,
        storage: GivenStorage = None,
        metadata: GivenStore = None,
        codecs: Sequence[Codec] = (),
        partitioners: Mapping[str, PartitionerFactory] | None = None,
        cleanup_policies: Sequence[CleanupPolicy] = (),
        assignors: Mapping[str, AssignorFactory] | None = None,
        cluster: ClusterStore | None = None,
        **keywords: object,
    ) -> None:
        if as_version is not None:
            keywords["kqueue_as_version"] = as_version
        self._plugins = PluginArguments(storage, metadata, codecs, partitioners, cleanup_policies, assignors, cluster)
        keywords = self._plugins.keywords(keywords, settings or {}, path)
        self._config = make_config(setting_values(path, port, settings or {}, keywords), self._plugins.objects)
        self._snapshot = None if snapshot is None else Snapshot(snapshot)
        self._memory: tuple[MemoryStorage, MemoryStore] | None = None
        self._lock = threading.RLock()
        self._time = OffsetClock()
        self.clock = BrokerClock(self._time, self._advance)
        self.requests = RequestLog(self._time, lambda: self._server.broker if hasattr(self, "_server") else None)
        """The requests of clients: ``broker.requests(api="Produce", topic="orders")``."""
        self._hooks = BrokerHooks(self.requests.record)
        self._thread: threading.Thread | None = None
        self._process_id = 0
        self._erases = False
        self._server: Server
        self._loop: asyncio.AbstractEventLoop
        self._stop_requested: asyncio.Event
        self._ended: Future[None]

    def __repr__(self) -> str:
        return f"<kqueue.Broker {f'on {self.bootstrap}' if self.is_running else 'that is not running'}>"

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread is not None

    @property
    def bootstrap(self) -> str:
        """The address for clients: ``127.0.0.1:40404``. Raises RuntimeError: it is not running."""
        host, port = self._endpoint()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def port(self) -> int:
        """The port of `bootstrap`."""
        return self._endpoint()[1]

    # --- start and stop

    def start(self) -> Broker:
        """Start, and return once clients can connect and, after a crash, all logs are recovered.
        Does nothing if it is running.

        Raises:
            FolderInUse: another broker has the data folder.
            ListenFailed: the port is in use.
            StorageFailed: data can't be read or written.
            SettingError, PluginError: a plugin can't be used.
        """
        with self._lock:
            if not self.is_running:
                self._start(self._config)
        return self

    def stop(self) -> None:
        """Finish the requests under way, flush everything and stop; returns when all of it is done.
        Does nothing if it is not running.

        Raises: StorageFailed: not everything could be written. It has stopped nevertheless.
        """
        if self._belongs_to_parent():
            return
        with self._lock:
            self._stop()
            self._memory = None
            if (
                self._snapshot is not None
                and self._plugins.storages is None
                and self._config["kqueue.storage"] == "memory"
            ):
                self._snapshot.used = False

    def restart(self) -> None:
        """Stop and start again, with the same ports and the same data, in memory too.

        Raises: what `start` and `stop` raise.
        """
        self._check_own_process()
        with self._lock:
            config = with_bound_ports(self._config, self._server) if self.is_running else self._config
            self._stop()
            self._start(config)

    def reset(self) -> None:
        """Reset it to the state after its first start, for the next test: no topics, records,
        groups, offsets and changed settings, and the machine's time.

        `requests` is emptied, and all faults are cancelled. Settings, plugins, the port and other
        files in the data folder stay. A broker with a `snapshot` begins with a copy of it again.

        The broker restarts, so connections of clients close, and clients connect again: the port
        keeps listening. An open producer creates its topic again, a member joins its group again.

        Durability: a crash in between leaves topics, or part of their files, which the next start
        removes.
        Raises:
            RuntimeError: it is not running, is a member of a cluster, or has both a `snapshot` and
                storage of its own, which would have to be empty.
            StorageFailed: not everything could be deleted.
        """
        self._check_own_process()
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the broker's own thread, which can't wait for itself")
        with self._lock:
            self._check_running()
            if self._config[CLUSTER_STORE] is not None:
                raise RuntimeError("a member of a cluster can't be reset: the others have what it has")
            in_memory = self._plugins.storages is None and self._config["kqueue.storage"] == "memory"
            if self._snapshot is not None and not in_memory:
                raise RuntimeError(
                    "a broker with a snapshot can be reset only if it is in memory: start another "
                    "one in an empty folder"
                )
            config, sockets = with_bound_ports(self._config, self._server), self._server.share_sockets()
            self._hooks.cancel_all()
            self._erases = True
            try:
                self._stop()
            except BaseException:
                for listening in sockets.values():
                    listening.close()
                raise
            finally:
                self._erases = False
            if self._snapshot is not None:
                self._memory, self._snapshot.used = None, False
            self._time.reset()
            self.requests.clear()
            self._start(config, sockets)

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Broker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # --- without a client

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; returns once it can be used. `configs`: its settings, such as
        ``cleanup_policy="compact"``.

        Raises: TopicAlreadyExists, InvalidTopic, InvalidPartitions, InvalidConfig.
        """
        values = {keyword_name(keyword): format_value(value) for keyword, value in configs.items()}
        topic = NewTopic(name, partitions, configs=values)

        async def create() -> None:
            await self._server.result(self._server.broker.topics.create(topic))

        self._call(create)

    def alter_config(self, **settings: object) -> None:
        """Change settings of the running broker, at once: ``broker.alter_config(log_retention_ms=
        1000)``. None gives one its value of the start again. `broker.topics[…].alter_config`
        changes a topic's.

        Durability: stored on return, where the broker has a data folder; `reset` removes them.
        Raises: InvalidRequest: a wrong value, or one that can't change at run time. SettingError:
            no such setting. All settings stay as they were.
        """

        from kqueue.base.config_resources import ResourceType
        from kqueue.broker.dynamic_configs import ConfigResource
        from kqueue.embedded.inspection.topics import config_changes

        async def alter() -> None:
            broker = self._server.broker
            resource = ConfigResource(ResourceType.BROKER, str(broker.node_id))
            await self._server.result(broker.configs.alter(resource, config_changes(settings)))

        self._call(alter)

    # --- the thread

    def _start(self, config: Config, sockets: Mapping[str, socket.socket] | None = None) -> None:
        started: Future[None] = Future()
        self._ended = Future()
        self._process_id = os.getpid()
        thread = threading.Thread(target=self._run, args=(config, started, sockets), name="kqueue-broker", daemon=True)
        thread.start()
        try:
            started.result()
        except BaseException:
            # it failed, and ends by itself; or the caller was interrupted, and will not use it
            while thread.is_alive():
                self._request_stop()
                thread.join(_STOP_AGAIN_S)
            raise
        self._thread = thread
        _RUNNING.add(self)

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        _RUNNING.discard(self)
        self._request_stop()
        thread.join()
        self._ended.result()

    def _request_stop(self) -> None:
        with contextlib.suppress(RuntimeError, AttributeError):  # its loop has ended, or not begun
            self._loop.call_soon_threadsafe(self._stop_requested.set)

    def _run(self, config: Config, started: Future[None], sockets: Mapping[str, socket.socket] | None) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                runner.run(self._serve(config, started, sockets))
        except BaseException as error:
            failure = error
        future = self._ended if started.done() else started
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(None)

    async def _serve(self, config: Config, started: Future[None], sockets: Mapping[str, socket.socket] | None) -> None:
        storages, store = self._plugins.storages, self._plugins.store
        self._memory = self._memory or (MemoryStorage(self._time), MemoryStore())
        if config["kqueue.storage"] == "memory":
            storages = storages or [self._memory[0]]
        if metadata_store_name(config) == "memory":
            store = store or self._memory[1]
        self._stop_requested = asyncio.Event()  # before the loop: see `_request_stop`
        self._loop = asyncio.get_running_loop()
        self._server = Server(
            config,
            clock=self._time,
            storages=storages,
            store=store,
            hooks=self._hooks,
            objects=self._plugins.objects,
            snapshot=self._snapshot,
            sockets=sockets,
        )
        await self._server.start()
        await self._ready_or_stop()
        started.set_result(None)
        await self._stop_requested.wait()
        await self._server.stop(erase=self._erases)

    async def _ready_or_stop(self) -> None:
        tasks = {asyncio.ensure_future(self._server.ready()), asyncio.ensure_future(self._stop_requested.wait())}
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    def _advance(self, ms: float) -> None:
        self._call(lambda: self._server.advance(ms))

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._check_own_process()
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the broker's own thread, which can't wait for itself")
        with self._lock:
            self._check_running()
            return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def _endpoint(self) -> tuple[str, int]:
        self._check_running()
        return self._server.endpoint(self._server.listener_names[0])

    def _check_running(self) -> None:
        if not self.is_running:
            raise RuntimeError("the broker is not running: use it in a `with` statement, or call start()")

    def _belongs_to_parent(self) -> bool:
        return self.is_running and self._process_id != os.getpid()

    def _check_own_process(self) -> None:
        if self._belongs_to_parent():
            raise RuntimeError("the broker runs in the process that this one was forked from")

    def _close_descriptors(self) -> None:
        self._server.close_descriptors()


def _stop_all() -> None:
    for broker in list(_RUNNING):
        broker.stop()


def _close_descriptors_in_child() -> None:
    for broker in list(_RUNNING):
        broker._close_descriptors()


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_descriptors_in_child)
