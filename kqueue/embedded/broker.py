"""`kqueue.Broker`: a whole broker in a thread of the caller's process.

The broker runs on its own thread. The methods here may be called from any other thread, and wait
for it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from kqueue.app import Server
from kqueue.base.clock import OffsetClock
from kqueue.base.config import Config
from kqueue.broker.snapshots import Snapshot
from kqueue.config.plugins import metadata_store_name
from kqueue.config.properties import make_config
from kqueue.embedded.argument_checks import check_folder, check_kind
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.event_loops import run_in_thread
from kqueue.embedded.loop_thread import LoopThread, unless
from kqueue.embedded.node import ISSUED_IDS, EmbeddedNode, registry_url
from kqueue.embedded.plugin_arguments import GivenStorage, GivenStore, PluginArguments
from kqueue.embedded.security_arguments import SecurityArguments
from kqueue.embedded.settings import setting_values, with_bound_ports
from kqueue.groups.assignors import AssignorFactory
from kqueue.log.policies import CleanupPolicy
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import ClusterStore
from kqueue.records.codecs import Codec
from kqueue.records.partitioners import PartitionerFactory
from kqueue.replication.config import CLUSTER_STORE
from kqueue.security.authorizers import AuthorizerFactory
from kqueue.storage import MemoryStorage

if TYPE_CHECKING:
    from kqueue.embedded.aio import AsyncBroker
    from kqueue.embedded.schema_registry import EmbeddedRegistry
    from kqueue.security.acls import AclBinding

T = TypeVar("T")


class Broker(EmbeddedNode):
    """A Kafka broker for programs and tests: ``with kqueue.Broker() as broker:
    KafkaProducer(bootstrap_servers=broker.bootstrap)``.

    Use ``with`` or ``async with``, or `start` and `stop`. It listens on loopback, unless the
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
        acls: ACLs that it has at each start, as text (`kqueue.security.acl_text`) or objects, e.g.
            ``["User:ann allow read,write topic:orders"]``. With any, the standard authorizer
            decides, and what no ACL allows is denied.
        tls: serve TLS in place of plain text, with certificates that it makes; `client_config`
            returns what clients need. A client with a certificate is its user.
        users: passwords by name. Clients authenticate as one of them, by PLAIN or SCRAM, on
            all listeners with SASL; the default one has it then.
        authorizer: called with an `AuthorizerSetup`, returns what decides who may do what.
        cluster: the metadata store of the cluster that it is a member of, shared with other brokers
            of this process, each with a ``node_id`` of its own. The program closes it.
        schema_registry: run a schema registry of this broker too, at the address `schema_registry`.
            It connects as the first of `users`.
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
        authorizer: AuthorizerFactory | None = None,
        acls: Iterable[str | AclBinding] = (),
        tls: bool = False,
        users: Mapping[str, str] | None = None,
        schema_registry: bool = False,
        **keywords: object,
    ) -> None:
        check_folder("path", path)
        check_kind("schema_registry", schema_registry, bool, "True or False")
        check_folder("snapshot", snapshot)
        super().__init__(OffsetClock(), SecurityArguments(tls=tls, users=users, acls=acls))
        if as_version is not None:
            keywords["kqueue_as_version"] = as_version
        self._plugins = PluginArguments(
            storage, metadata, codecs, partitioners, cleanup_policies, assignors, cluster, authorizer
        )
        keywords = self._plugins.keywords(keywords, settings or {}, path)
        values = setting_values(path, port, settings or {}, keywords, protocol=self._security.protocol.name)
        self._config = make_config(self._security.complete(values), self._plugins.objects)
        self._snapshot = None if snapshot is None else Snapshot(snapshot)
        self._memory: tuple[MemoryStorage, MemoryStore] | None = None
        self.clock = BrokerClock(self._time, self._advance)
        self._thread: LoopThread | None = None
        self._erases = False
        self._registry: EmbeddedRegistry | None = None
        if schema_registry:
            from kqueue.embedded.schema_registry import EmbeddedRegistry

            self._registry = EmbeddedRegistry()

    def __repr__(self) -> str:
        return f"<kqueue.Broker {f'on {self.bootstrap}' if self.is_running else 'that is not running'}>"

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread is not None

    @cached_property
    def aio(self) -> AsyncBroker:
        """The calls of this broker for coroutines: ``await broker.aio.create_topic("orders")``."""
        from kqueue.embedded.aio import AsyncBroker

        return AsyncBroker(self)

    @property
    def schema_registry(self) -> str:
        """The address of its schema registry, for clients: ``http://127.0.0.1:40405``.

        Raises: RuntimeError: it has none (``Broker(schema_registry=True)``), or is not running.
        """
        return registry_url(self._registry, "Broker")

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
        if self._thread is not None:
            self._thread.check_not_own()
        with self._lock:
            self._check_running()
            if self._config[CLUSTER_STORE] is not None:
                raise RuntimeError(
                    "a member of a cluster can't be reset: the others have what it has. Use kqueue.Cluster, which "
                    "resets all its brokers, or start another cluster, or delete its topics"
                )
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
                for listening in itertools.chain(*sockets.values()):
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
        return await run_in_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_in_thread(self.stop)

    # --- the thread

    def _start(self, config: Config, sockets: Mapping[str, Sequence[socket.socket]] | None = None) -> None:
        thread = LoopThread(
            "kqueue-broker",
            lambda stopping: self._begin(config, sockets, stopping),
            self._end,
            lambda: self._server.close_descriptors(),
        )
        thread.start()
        self._thread = thread
        if self._registry is not None:
            try:
                self._registry.start(self.client_config("confluent-kafka"))
            except BaseException:
                self._stop()
                raise

    def _stop(self) -> None:
        if self._registry is not None:
            self._registry.stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    async def _begin(
        self, config: Config, sockets: Mapping[str, Sequence[socket.socket]] | None, stopping: asyncio.Event
    ) -> None:
        storages, store = self._plugins.storages, self._plugins.store
        self._memory = self._memory or (MemoryStorage(self._time), MemoryStore())
        if config["kqueue.storage"] == "memory":
            storages = storages or [self._memory[0]]
        if metadata_store_name(config) == "memory":
            store = store or self._memory[1]
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
        self._server.issued = ISSUED_IDS
        await self._server.start()
        if self._security.acls:
            from kqueue.broker.access.acls import stored_form

            entries = {key: value for binding in self._security.acls for key, value in stored_form(binding).items()}
            await self._server.result(self._server.broker.security.acls.store(entries))
        await unless(stopping, self._server.ready())

    async def _end(self) -> None:
        await self._server.stop(erase=self._erases)

    def _advance(self, ms: float) -> None:
        self._call(lambda: self._server.advance(ms))

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._check_own_process()
        if self._thread is not None:
            self._thread.check_not_own()
        with self._lock:
            self._check_running()
            assert self._thread is not None
            return self._thread.call(work)

    def _check_running(self) -> None:
        if not self.is_running:
            raise RuntimeError("the broker is not running: use it in a `with` statement, or call start()")

    def _belongs_to_parent(self) -> bool:
        return self._thread is not None and self._thread.belongs_to_parent

    def _check_own_process(self) -> None:
        if self._belongs_to_parent():
            raise RuntimeError("the broker runs in the process that this one was forked from")
