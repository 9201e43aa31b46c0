"""One broker of a `kqueue.Cluster`."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from kqueue.app import Server
from kqueue.base.clock import Clock, OffsetClock
from kqueue.base.config import Config
from kqueue.base.errors import ListenFailed, SessionLost
from kqueue.broker.member import Member
from kqueue.config.listeners import parse_listeners
from kqueue.config.plugins import PluginObjects
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.cluster_store import StoreAccess
from kqueue.embedded.held_traffic import HeldTraffic
from kqueue.embedded.loop_thread import LoopThread
from kqueue.embedded.node import ISSUED_IDS, EmbeddedNode
from kqueue.embedded.security_arguments import SecurityArguments
from kqueue.embedded.server_loop import ServerLoop
from kqueue.embedded.settings import with_bound_ports
from kqueue.network.interception import BrokerHooks, InterceptedRequest, RequestObserver
from kqueue.network.listener import bind
from kqueue.network.peer_connections import peer_of
from kqueue.storage import MemoryStorage, Storage
from kqueue.wire.headers import RequestHeader

if TYPE_CHECKING:
    from kqueue.network.contract import Connection

T = TypeVar("T")
GivenStorages = Callable[[int, Clock], Storage | None]
"""Returns a broker's storage at its start; None: that of its settings."""
POLL_S = 0.002


class Host(Protocol):
    """The part of its cluster that a broker uses."""

    @property
    def running_thread(self) -> LoopThread:
        """The thread of all brokers. Raises RuntimeError: the cluster is not running."""
        ...

    @property
    def clock(self) -> BrokerClock:
        """The clock of all brokers."""
        ...

    def open_access(self) -> StoreAccess:
        """Return a new access to the metadata store."""
        ...


class ClusterBroker(EmbeddedNode):
    """One broker of a cluster, with the methods of `kqueue.Broker`: ``cluster[0]``.

    Its port and its data stay when it is stopped or killed, data in memory too. `id` is its node
    id, and its index. Thread: any but the brokers' own.
    """

    def __init__(
        self,
        host: Host,
        id: int,
        config: Config,
        time: OffsetClock,
        storages: GivenStorages | None,
        security: SecurityArguments,
    ) -> None:
        super().__init__(time, security, id)
        self.id = id
        self._host = host
        self._config = config
        self._hooks = BrokerHooks(self._record)
        self._memory: MemoryStorage | None = None
        self._storages = storages or self._own_storage
        self._access: StoreAccess | None = None
        self._loop_view: ServerLoop | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ports: dict[str, list[socket.socket]] = {}  # held while it does not run
        self._unreachable: frozenset[int] = frozenset()
        self._traffic = HeldTraffic()

    def __repr__(self) -> str:
        state = "that is paused" if self.is_paused else f"on {self.bootstrap}" if self.is_running else "that is stopped"
        return f"<broker {self.id} {state}>"

    @property
    def clock(self) -> BrokerClock:
        """The clock of all brokers of the cluster."""
        return self._host.clock

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed; also while it is paused."""
        return self._loop_view is not None

    @property
    def is_paused(self) -> bool:
        """Whether `pause` stopped it from doing anything."""
        return self._loop_view is not None and self._loop_view.is_paused

    @property
    def serves(self) -> bool:
        """Whether it is running, not paused, and reaches the metadata store."""
        return self.is_running and not self.is_paused and self._access is not None and not self._access.is_cut

    @property
    def is_cut_off(self) -> bool:
        """Whether `Cluster.partition` keeps it from reaching a broker, or the metadata store."""
        return bool(self._unreachable) or (self._access is not None and self._access.is_cut)

    @property
    def is_unfenced(self) -> bool:
        """Whether it may lead, as it knows."""
        member = self._server.broker.member
        return member is not None and member.is_unfenced

    def knows(self, topic: str, index: int, partition_epoch: int) -> bool:
        """Whether it has this registration of a partition, or a newer one. Thread: the brokers'."""
        known_topic = self._server.broker.topics.find(topic)
        if known_topic is None or index >= len(known_topic.partitions):
            return False
        return known_topic.partitions[index].registration.partition_epoch >= partition_epoch

    # --- its life

    def start(self) -> None:
        """Start it again, and return once it is unfenced. Does nothing if it is running.

        After `kill` its session must have timed out first, which this waits for.
        Raises: RuntimeError: it was killed, or the cluster was stopped or reset, meanwhile.
        """
        self._change(self._start)

    def stop(self) -> None:
        """Stop it as SIGTERM does: others take its leaderships, and its clients' requests are
        finished. Does nothing if it is not running; one that is paused is resumed first.

        Raises: StorageFailed: not everything could be written. It has stopped nevertheless.
        """
        self._change(self._stop)

    def restart(self) -> None:
        """Stop it, if it is running, and start it again."""
        self._change(self._restart)

    def kill(self) -> None:
        """End it as SIGKILL does: nothing is flushed or written any more, and its connections are
        closed. The others learn it when its session times out. A start that another thread has
        begun fails.
        """
        thread = self._host.running_thread
        thread.check_not_own()
        thread.call(self._kill)

    def pause(self) -> None:
        """Stop it as SIGSTOP does: it reads and answers nothing, and gives no signs of life, while
        its connections stay open. When its session has timed out, others lead.
        """
        self._change(self._pause)

    def resume(self) -> None:
        """Let it continue after `pause`, as SIGCONT does. It may believe that it leads still, until
        it has read what was changed meanwhile.
        """
        self._change(self._resume)

    def _change(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        thread = self._host.running_thread
        thread.check_not_own()
        with self._lock:
            thread.call(work)

    # --- in the brokers' thread

    async def _begin(self) -> None:
        """Start it; it is registered, but maybe not unfenced."""
        loop = asyncio.get_running_loop()
        access = self._access = self._access or self._host.open_access()
        while not access.is_cut and self.id in access.reached().sessions():
            await asyncio.sleep(POLL_S)  # of a life before, which was killed
        storage = self._storages(self.id, self._time)
        view = ServerLoop(loop)
        ports, self._ports = self._ports, {}
        self._server = Server(
            self._config,
            clock=self._time,
            storages=None if storage is None else [storage],
            hooks=self._hooks,
            objects=PluginObjects(cluster=access),
            sockets=ports,
        )
        self._server.issued = ISSUED_IDS
        try:
            await self._server.start(cast(asyncio.AbstractEventLoop, view))
        except BaseException:
            self._hold_ports()
            raise
        self._loop_view = view
        self._config = with_bound_ports(self._config, self._server)

    def _own_storage(self, id: int, clock: Clock) -> Storage | None:
        if self._memory is None and self._config["kqueue.storage"] == "memory":
            self._memory = MemoryStorage(clock)
        return self._memory

    async def _start(self) -> None:
        if self.is_running:
            return
        starting = self._starting = asyncio.create_task(self._become_ready())
        try:
            await asyncio.wait([starting])
        finally:
            self._starting = None
        if starting.cancelled():
            raise RuntimeError(f"broker {self.id} was ended while it started")
        starting.result()

    async def _become_ready(self) -> None:
        await self._begin()
        await self._server.ready()

    def _end_start(self) -> None:
        """Let a start that is under way fail, as that of a process that gets a signal."""
        if self._starting is not None:
            self._starting.cancel()

    async def _stop(self) -> None:
        self._end_start()
        if self.is_running:
            await self._resume()
            try:
                await self._server.stop()
            finally:
                self._ended()

    async def _restart(self) -> None:
        await self._stop()
        await self._start()

    async def _kill(self) -> None:
        self._end_start()
        if self._loop_view is not None:
            self._loop_view.close()
            try:
                self._server.kill()
            finally:
                self._ended()

    async def _pause(self) -> None:
        self._check_running()
        await self._freeze()

    async def _freeze(self) -> None:
        if self._loop_view is not None:
            self._loop_view.pause()

    async def _resume(self) -> None:
        if self._loop_view is not None and self._loop_view.is_paused:
            self._loop_view.resume()
            self._server.loop_driver.rearm()  # the clock may have been advanced

    def _ended(self) -> None:
        self._loop_view = None
        self._traffic = HeldTraffic()
        self._hold_ports()

    def _hold_ports(self) -> None:
        """Keep others from taking the ports. Clients are refused, as nobody listens."""
        for address in (plan.bind for plan in parse_listeners(self._config)):
            with contextlib.suppress(ListenFailed):  # which the next start reports
                self._ports[address.name] = bind(address, self._config)

    def _forget(self) -> None:
        """Drop all but its settings: the whole cluster has stopped."""
        self._release_ports()
        self._memory = self._access = None

    def _drop_data(self) -> None:
        """Drop the data in memory and the log of requests, for a reset."""
        self._memory = None
        self.requests.clear()

    def _release_ports(self) -> None:
        while self._ports:
            for held in self._ports.popitem()[1]:
                held.close()

    def _close_descriptors(self) -> None:
        """Close this process's copies of all sockets, in a forked child."""
        if self.is_running:
            self._server.close_descriptors()
        self._release_ports()

    # --- the network

    def _cut_off(self, brokers: frozenset[int]) -> None:
        """Let no traffic of these brokers pass; of others it passes again. Thread: the brokers'."""
        if self._unreachable:
            self._hooks.remove(self._hold_back, _no_failure)
        self._unreachable = brokers
        self._traffic.release()
        if brokers:
            self._hooks.add(self._hold_back, _no_failure)
            for connection in list(self._server.connections.sessions) if self.is_running else ():
                if _sender(connection) in brokers:
                    self._traffic.suspend(connection)

    def _cut_store(self, is_cut: bool) -> None:
        if self._access is not None and is_cut:
            self._access.cut()
        elif self._access is not None:
            self._access.heal()

    def _keep_alive(self) -> None:
        """Keep its session alive, if it would do so itself. Thread: the brokers'."""
        member = self._server.broker.member if self.serves else None
        if isinstance(member, Member) and member.registration.session is not None:
            with contextlib.suppress(SessionLost):  # which it learns by itself
                member.registration.session.keep_alive()

    def _hold_back(self, asked: InterceptedRequest) -> None:
        if peer_of(asked.call.client_id) in self._unreachable:
            self._traffic.hold(asked)

    def _record(self, frame: memoryview, header: RequestHeader, address: str) -> RequestObserver | None:
        return self.requests.record(frame, header, address) if peer_of(header.client_id) is None else None

    # --- as `EmbeddedNode` needs it

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        thread = self._host.running_thread
        thread.check_not_own()
        with self._lock:
            self._check_running()
            if self.is_paused:
                raise RuntimeError(f"broker {self.id} is paused, and does nothing before it is resumed")
            return thread.call(work)

    def _check_running(self) -> None:
        if not self.is_running:
            raise RuntimeError(f"broker {self.id} is not running: use cluster.start({self.id})")


def _sender(connection: Connection) -> int | None:
    return None if connection.call is None else peer_of(connection.call.client_id)


def _no_failure(kind: str, path: str, size: int) -> None:
    """No change of files fails."""
