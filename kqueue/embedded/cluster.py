"""`kqueue.Cluster`: several brokers in one thread of the caller's process, as one cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from kqueue.base.clock import OffsetClock
from kqueue.base.config import Config
from kqueue.base.errors import SettingError, StorageFailed
from kqueue.broker.access.acls import PREFIX as ACL_PREFIX
from kqueue.broker.access.acls import stored_form
from kqueue.broker.cluster.registration import CLUSTER_KEY
from kqueue.broker.metadata import producer_ids
from kqueue.config import plugins
from kqueue.config.properties import keyword_name, make_config
from kqueue.embedded.argument_checks import check_broker_id, check_folder, check_kind, check_list
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.cluster_broker import ClusterBroker, GivenStorages
from kqueue.embedded.cluster_records import ClusterRecordsMixin
from kqueue.embedded.cluster_store import TICK_S, SessionClock, StoreAccess
from kqueue.embedded.cluster_topics import POLL_S, WAIT_S, ClusterTopicsMixin
from kqueue.embedded.event_loops import run_in_thread
from kqueue.embedded.loop_thread import LoopThread, unless
from kqueue.embedded.node import registry_url
from kqueue.embedded.security_arguments import SecurityArguments
from kqueue.embedded.settings import DEFAULTS, setting_values, with_values
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import ClusterStore
from kqueue.network.advance import advance_time
from kqueue.replication.config import CLUSTER_STORE, GIVEN_STORE
from kqueue.security.acls import AclBinding
from kqueue.workers.watchdog import Watchdog

if TYPE_CHECKING:
    from kqueue.embedded.cluster_aio import AsyncCluster
    from kqueue.embedded.cluster_groups import ClusterGroups
    from kqueue.embedded.schema_registry import EmbeddedRegistry

T = TypeVar("T")
SESSION_MS = 600
CLUSTER_DEFAULTS: Mapping[str, object] = {
    **DEFAULTS,
    CLUSTER_STORE: GIVEN_STORE,
    "broker.session.timeout.ms": SESSION_MS,
    "broker.heartbeat.interval.ms": SESSION_MS // 6,
    "replica.lag.time.max.ms": 1000,
    "replica.fetch.wait.max.ms": 200,
    "replica.fetch.backoff.ms": 50,
}
"""The settings in which an embedded cluster differs from a served one: failures are noticed in less
than a second.
"""
FACTOR_MAX = 3
STORE_FILE = "cluster.db"
OWN_SETTINGS = ("node.id", "broker.id", "broker.rack", CLUSTER_STORE)
WATCHDOG = "kqueue.watchdog.ms"
KEY_STORE = "ssl.keystore.location"
SETTLE_S = 5.0
KEPT_KEYS = (CLUSTER_KEY, producer_ids.KEY)
"""The keys that a reset leaves in the metadata store."""


class Cluster(ClusterTopicsMixin, ClusterRecordsMixin):
    """A cluster of Kafka brokers for tests: ``with kqueue.Cluster(brokers=3) as cluster:
    KafkaProducer(bootstrap_servers=cluster.bootstrap)``.

    Use ``with`` or ``async with``, or `start` and `stop`. Each broker has a port of its own on
    127.0.0.1, which it keeps, and is an object with what `kqueue.Broker` has:
    ``cluster[0].topics``. All are in `brokers`. Brokers are meant by their node ids, from 0.

    All brokers run in one thread, with one `clock`, which a test can advance. Sessions and lag
    times are so short that another broker leads within a second of a failure. The replication
    factor is 3 by default, or the number of brokers if that is less. A running cluster is stopped
    when the interpreter ends; in a forked child it still belongs to the parent.

    Args:
        brokers: how many, at least 1.
        path: a folder, created if missing: ``broker-0`` and so on have the data, `STORE_FILE` the
            metadata; None keeps everything in memory.
        racks: of each broker; None: they have none.
        storages: called with a broker's id and the cluster's clock at each of its starts, returns
            its data, in place of memory or a folder; the caller owns it.
        settings: of all brokers, by their names; the same as keywords:
            ``log_segment_bytes=1_048_576``.
        as_version: serve what that release of Kafka does, see `kqueue.Broker`.
        schema_registry: run a schema registry of the cluster too, as that of `kqueue.Broker`.
        tls, users, acls: as those of `kqueue.Broker`. Brokers secure what they send each other in
            the same way, as super users of their own. With `acls` alone they can't be told from
            clients: everybody may do what brokers ask each other for then.
    Raises: SettingError: an unknown setting or a bad value. ValueError: another number of racks
        than of brokers.
    """

    def __init__(
        self,
        brokers: int = 3,
        path: str | os.PathLike[str] | None = None,
        *,
        racks: Sequence[str | None] | None = None,
        storages: GivenStorages | None = None,
        settings: Mapping[str, object] | None = None,
        as_version: str | None = None,
        tls: bool = False,
        users: Mapping[str, str] | None = None,
        acls: Iterable[str | AclBinding] = (),
        schema_registry: bool = False,
        **keywords: object,
    ) -> None:
        check_kind("schema_registry", schema_registry, bool, "True or False")
        check_kind("brokers", brokers, int, "the number of brokers")
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: expected at least 1")
        if racks is not None:
            check_list("racks", racks, "a list of one rack for each broker")
        if racks is not None and len(racks) != brokers:
            raise ValueError(f"racks: expected one for each of {brokers} brokers, found {len(racks)}")
        if as_version is not None:
            keywords["kqueue_as_version"] = as_version
        named = {*(settings or {}), *map(keyword_name, keywords)}
        for name in OWN_SETTINGS:
            if name in named:
                raise SettingError(
                    f"{name} can't be set: the cluster gives each broker its own; see its argument racks"
                )
        check_folder("path", path)
        defaults = {**CLUSTER_DEFAULTS, "default.replication.factor": min(brokers, FACTOR_MAX)}
        self._security = SecurityArguments(tls=tls, users=users, acls=acls, is_cluster=True)
        values = setting_values(path, 0, settings or {}, keywords, defaults, self._security.protocol.name)
        config = make_config(self._security.complete(values))
        if storages is not None:
            config = with_values(config, {"kqueue.storage": "local"})  # flushed, as memory is not
        self._resets = storages is None
        self._path = None if path is None else Path(path)
        self._watchdog_ms: int = config[WATCHDOG]
        self._session_ms: int = config["broker.session.timeout.ms"]
        self._time = OffsetClock()
        self._session_time = SessionClock()
        self._lock = threading.RLock()
        self._thread: LoopThread | None = None
        self._registry: EmbeddedRegistry | None = None
        if schema_registry:
            from kqueue.embedded.schema_registry import EmbeddedRegistry

            self._registry = EmbeddedRegistry()
        self._store: ClusterStore
        self.clock = BrokerClock(self._time, self._advance)
        """The time of all brokers: ``cluster.clock.advance(days=8)``. See `BrokerClock.advance`.

        During an advance, brokers give signs of life, but send each other nothing; it returns when
        the replicas are in sync again. A session that was lost before, as that of a broker that was
        killed, times out within the advance.
        """
        self.brokers: tuple[ClusterBroker, ...] = tuple(
            ClusterBroker(self, id, self._config_of(config, id, racks), self._time, storages, self._security)
            for id in range(brokers)
        )

    def __repr__(self) -> str:
        state = f"on {self.bootstrap}" if self.is_running else "that is not running"
        return f"<kqueue.Cluster of {len(self.brokers)} brokers {state}>"

    def __getitem__(self, broker: int) -> ClusterBroker:
        """Return a broker by its node id. Raises: IndexError: there is no such broker."""
        if not isinstance(broker, int) or not 0 <= broker < len(self.brokers):
            kind = IndexError if isinstance(broker, int) else TypeError
            raise kind(f"cluster[{broker!r}]: expected the node id of a broker, 0 to {len(self.brokers) - 1}")
        return self.brokers[broker]

    def __iter__(self) -> Iterator[ClusterBroker]:
        return iter(self.brokers)

    def __len__(self) -> int:
        return len(self.brokers)

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread is not None

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients, also of those that are stopped:
        ``127.0.0.1:40404,127.0.0.1:40405``. Raises RuntimeError: the cluster is not running.
        """
        self._check_running()
        return ",".join(broker._address() for broker in self.brokers)

    @property
    def schema_registry(self) -> str:
        """The address of its schema registry, for clients. Raises RuntimeError: it has none
        (``Cluster(schema_registry=True)``), or is not running.
        """
        return registry_url(self._registry, "Cluster")

    def client_config(
        self,
        client: str,
        *,
        user: str | None = None,
        password: str | None = None,
        mechanism: str = "PLAIN",
        token: Callable[[], str] | None = None,
    ) -> dict[str, Any]:
        """Return what a client needs that may ask any broker; see `kqueue.Broker.client_config`."""
        return self.brokers[0]._client_config(client, self.bootstrap, user, password, mechanism, token)

    @cached_property
    def groups(self) -> ClusterGroups:
        """The groups by name, a mapping: ``cluster.groups["mail"].offsets == {"orders": {0: 3}}``.
        It always shows the present state, each group from its coordinator.
        """
        from kqueue.embedded.cluster_groups import ClusterGroups

        def serving() -> list[ClusterBroker]:
            self._check_running()
            return [broker for broker in self.brokers if broker.serves]

        return ClusterGroups(serving, lambda topic: self._topic_to_read(topic).end_offsets)

    @cached_property
    def aio(self) -> AsyncCluster:
        """The calls of this cluster for coroutines: ``await cluster.aio.wait_in_sync()``."""
        from kqueue.embedded.cluster_aio import AsyncCluster

        return AsyncCluster(self)

    # --- start and stop

    def start(self, broker: int | None = None) -> Cluster:
        """Start the cluster, or one broker of it again; return once every broker is unfenced.

        None starts all brokers that do not run. See `ClusterBroker.start`.
        Raises: ListenFailed. FolderInUse. StorageFailed. SettingError, PluginError.
        """
        if broker is not None:
            self._broker("start", broker).start()
            return self
        with self._lock:
            if self._thread is None:
                thread = LoopThread("kqueue-cluster", self._begin, self._end, self._close_descriptors)
                thread.start()
                self._thread = thread
                self._start_registry()
            else:
                for each in self.brokers:
                    each.start()
        return self

    def stop(self, broker: int | None = None) -> None:
        """Stop one broker, as SIGTERM does (see `ClusterBroker.stop`), and return once it leads
        nothing. None: stop the whole cluster, and drop what is in memory.

        Raises: StorageFailed: not everything could be written. It has stopped nevertheless.
        """
        if broker is not None:
            self._broker("stop", broker).stop()
            self._wait_relieved(broker)
            return
        if self._thread is not None and self._thread.belongs_to_parent:
            return
        with self._lock:
            if self._registry is not None:
                self._registry.stop()
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.stop()

    def _start_registry(self) -> None:
        if self._registry is not None:
            try:
                self._registry.start(self.client_config("confluent-kafka"))
            except BaseException:
                self.stop()
                raise

    def restart(self, broker: int) -> None:
        """Stop a broker and start it again."""
        self._broker("restart", broker).restart()

    def kill(self, *brokers: int) -> None:
        """End brokers as SIGKILL does, several at the same moment; see `ClusterBroker.kill`.

        Raises: ValueError: no such broker, or none is named. TypeError: no node id.
        """
        if not brokers:
            raise ValueError("kill: expected the node ids of brokers, such as kill(0) or kill(0, 1)")
        killed = [self._broker("kill", id) for id in brokers]

        async def work() -> None:
            for broker in killed:
                await broker._freeze()  # so that none notices the end of the others
            for broker in killed:
                await broker._kill()

        self._call(work)

    def pause(self, broker: int) -> None:
        """Stop a broker as SIGSTOP does; see `ClusterBroker.pause`."""
        self._broker("pause", broker).pause()

    def resume(self, broker: int) -> None:
        """Let a broker continue after `pause`."""
        self._broker("resume", broker).resume()

    def partition(self, *sides: Iterable[int], without_store: Iterable[int] = ()) -> None:
        """Cut the network between brokers: ``cluster.partition({0}, {1, 2})``. Clients reach all.

        Connections stay open, and what is sent waits until `heal`. A second call replaces the
        first.

        Args:
            sides: sets of brokers that reach those of their own side only. All others reach
                everybody.
            without_store: brokers that can't reach the metadata store, so their sessions time out.
        Raises: ValueError: a broker is in two sides, or is none of the cluster.
        """
        for side in sides:
            check_list("partition: a side", side, "a set of node ids, such as partition({0}, {1, 2})")
        check_list("without_store", without_store, "a set of node ids")
        parts = [frozenset(side) for side in sides]
        cut = frozenset(without_store)
        named = [id for part in parts for id in part]
        ids = set(range(len(self.brokers)))
        if len(set(named)) != len(named) or not ids.issuperset(named):
            raise ValueError(f"expected brokers 0 to {len(ids) - 1}, each in one side, found {sides}")
        if not ids.issuperset(cut):
            raise ValueError(f"without_store={set(cut)}: expected brokers 0 to {len(ids) - 1}")

        async def work() -> None:
            self._part(parts, cut)

        self._call(work)

    def heal(self) -> None:
        """End `partition`: what waited is delivered."""
        self.partition()

    def restore(self) -> None:
        """Let all brokers run again and reach each other: start, resume and heal what is not so,
        and cancel all faults. Topics, records and settings stay. Returns once all replicas are in
        sync.
        """
        self.heal()
        for broker in self.brokers:
            broker._hooks.cancel_all()
            broker.resume()
        self.start()
        self.wait_in_sync()

    def reset(self) -> None:
        """Reset it to the state after its first start, for the next test: no topics, records,
        groups, offsets and changed settings, the machine's time, and all brokers run and reach each
        other.

        Requests are forgotten, and all faults are cancelled. Ports and producer ids stay. The
        brokers are killed and start again, so connections of clients close, and clients connect
        again.

        Durability: with a `path` the brokers' folders are deleted. A crash in between leaves topics
            without records.
        Raises: RuntimeError: it has storages of the caller. StorageFailed: not everything could be
            deleted; OSError: as `shutil.rmtree`. The brokers that have not been started again stay
            down.
        """
        if not self._resets:
            raise RuntimeError("a cluster with storages of its own can't be reset: start another one")
        for broker in self.brokers:
            broker._hooks.cancel_all()
        if self._registry is not None:
            self._registry.stop()
        self._call(self._reset)
        self._start_registry()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return await run_in_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await run_in_thread(self.stop)

    # --- in the brokers' thread

    def open_access(self) -> StoreAccess:
        """See `cluster_broker.Host`."""
        return StoreAccess(self._store)

    async def _begin(self, stopping: asyncio.Event) -> None:
        self._store = self._open_store()
        self._store_acls()
        loop = asyncio.get_running_loop()
        self._watchdog = Watchdog(loop, self._watchdog_ms, plugins.plugin_sources)
        self._watchdog.start()
        self._tick(loop)
        try:
            for broker in self.brokers:
                await broker._begin()
            await unless(stopping, self._until(self._is_complete))
        except BaseException:
            with contextlib.suppress(StorageFailed):
                await self._end()
            raise

    async def _reset(self) -> None:
        self._part((), frozenset())
        for broker in self.brokers:
            await broker._freeze()  # so that none notices the end of the others
        for broker in self.brokers:
            await broker._kill()
            broker._drop_data()
        self._session_time.skip(self._session_ms + 1.0)  # nobody waits for the sessions of the killed
        await asyncio.to_thread(self._erase)
        await asyncio.to_thread(self._store_acls)
        self._time.reset()
        for broker in self.brokers:
            await broker._begin()
        await self._until(self._is_complete)

    def _erase(self) -> None:
        entries = self._store.read("/")
        erased = [key for key in entries if key not in KEPT_KEYS]
        self._store.commit({}, {}, erased)
        for broker in self.brokers if self._path is not None else ():
            shutil.rmtree(self._folder_of(broker.id))

    def _store_acls(self) -> None:
        entries = {key: value for binding in self._security.acls for key, value in stored_form(binding).items()}
        self._store.commit({}, {f"{ACL_PREFIX}{key}": value for key, value in entries.items()}, [])

    async def _end(self) -> None:
        self._part((), frozenset())  # what is cut off could not stop in order
        try:
            await asyncio.gather(*(broker._stop() for broker in self.brokers))
        finally:
            for broker in self.brokers:
                broker._forget()
            self._watchdog.stop()
            self._store.close()

    def _part(self, parts: Sequence[frozenset[int]], without_store: frozenset[int]) -> None:
        for broker in self.brokers:
            own = next((part for part in parts if broker.id in part), None)
            others = [part for part in parts if part is not own]
            broker._cut_off(frozenset().union(*others) if own is not None else frozenset())
            broker._cut_store(broker.id in without_store)

    def _open_store(self) -> ClusterStore:
        if self._path is None:
            return MemoryStore(self._session_time)
        from kqueue.metadata.sqlite import SqliteStore  # on use: a cluster in memory does not need it

        self._path.mkdir(0o700, parents=True, exist_ok=True)
        return SqliteStore(self._path / STORE_FILE, clock=self._session_time)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._session_time.tick()
        loop.call_later(TICK_S, self._tick, loop)

    def _is_complete(self) -> bool:
        return all(
            broker._server.broker.ready.done
            and broker._server.broker.metadata.cluster.controller_id >= 0
            and len(broker._server.broker.metadata.cluster.brokers()) == len(self.brokers)
            for broker in self.brokers
        )

    async def _until(self, met: Callable[[], bool]) -> None:
        while not met():
            await asyncio.sleep(POLL_S)

    def _advance(self, ms: float) -> None:
        async def work() -> None:
            await self._pass_sessions(ms)
            servers = [broker._server for broker in self.brokers if broker.is_running and not broker.is_paused]
            advance_time(ms, self._time, [server.advanced for server in servers], self._watchdog.suspended)
            if any(broker.is_cut_off for broker in self.brokers):
                return
            with contextlib.suppress(TimeoutError):  # of what can't be in sync
                await asyncio.wait_for(self._until(lambda: self._find_problem() is None), SETTLE_S)

        self._call(work)

    async def _pass_sessions(self, ms: float) -> None:
        """Let sessions time out, but those of the brokers that run, as if they had gone on."""
        left_ms = min(ms, 2.0 * self._session_ms)
        while left_ms > 0:
            step_ms = min(left_ms, self._session_ms / 3)
            left_ms -= step_ms
            self._session_time.skip(step_ms)
            for broker in self.brokers:
                broker._keep_alive()
            await asyncio.sleep(0)

    def _close_descriptors(self) -> None:
        for broker in self.brokers:
            broker._close_descriptors()

    # --- calls

    @property
    def running_thread(self) -> LoopThread:
        """See `cluster_broker.Host`."""
        self._check_running()
        assert self._thread is not None
        if self._thread.belongs_to_parent:
            raise RuntimeError("the cluster runs in the process that this one was forked from")
        return self._thread

    def _ensure_topic(self, name: str, partitions_min: int) -> None:
        self._any_broker()._ensure_topic(name, partitions_min)
        self._wait(lambda: self._find_problem([name], in_sync=False), WAIT_S)

    def _broker(self, call: str, id: int) -> ClusterBroker:
        check_broker_id(call, id, self.brokers)
        return self.brokers[id]

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        thread = self.running_thread
        thread.check_not_own()
        return thread.call(work)

    def _check_running(self) -> None:
        if not self.is_running:
            raise RuntimeError("the cluster is not running: use it in a `with` statement, or call start()")

    def _config_of(self, config: Config, id: int, racks: Sequence[str | None] | None) -> Config:
        own: dict[str, object] = {"node.id": id, WATCHDOG: 0}
        if racks is not None and racks[id] is not None:
            own["broker.rack"] = racks[id]
        if self._path is not None:
            own["log.dirs"] = [str(self._folder_of(id))]
        certificates = self._security.certificates
        if certificates is not None and config[KEY_STORE] == certificates.broker_file():
            own[KEY_STORE] = certificates.broker_file(id)
        return with_values(config, own)

    def _folder_of(self, id: int) -> Path:
        assert self._path is not None
        return self._path / f"broker-{id}"
