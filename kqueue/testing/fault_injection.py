"""Faults on purpose: ``with kqueue.testing.faults(broker) as faults: faults.fail("Produce",
times=3)``.

Faults stack in the order in which they are made: each is shown what the ones before let through. A
request meets one end: it fails, or is disconnected, or its reply is dropped; delays, and errors for
a part of it, may come on top. A fault that is used up (`times`) lets the next have its turn, so
that a row of faults is a script.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from kqueue.api.request_topics import APIS_WITH_TOPICS, accessed_topics, find_api
from kqueue.embedded import Broker
from kqueue.embedded.request_log import TOPICS_SHOWN, legible, listing
from kqueue.network.interception import InterceptedRequest
from kqueue.storage.fault_injection import InjectedFailure
from kqueue.testing.fault_types import (
    ANY_API,
    DelayFault,
    DisconnectFault,
    DiskFullFault,
    DropReplyFault,
    ErrorFault,
    Fault,
    FaultFilter,
    HoldFault,
    NetworkPartition,
    RequestFault,
    StorageFault,
    TornWriteFault,
)
from kqueue.wire.error_codes import ErrorCode

__all__ = ["Fault", "Faults", "Fired", "NetworkPartition", "faults"]

FIRED_MAX = 10_000
F = TypeVar("F", bound=Fault)


class Fired(NamedTuple):
    """One stroke of a fault: what it was, and the request or file that it hit ("" or None where
    that is not known).
    """

    time: datetime
    fault: str
    api: str = ""
    version: int = -1
    client_id: str | None = None
    address: str = ""
    topics: tuple[str, ...] = ()
    path: str = ""

    def __str__(self) -> str:
        about = f" about {', '.join(map(legible, self.topics[:TOPICS_SHOWN]))}" if self.topics else ""
        hit = self.path or f"{self.api} v{self.version} of {legible(self.client_id or '')} ({self.address}){about}"
        return f"{self.time:%H:%M:%S}.{self.time.microsecond // 1000:03} {self.fault} -> {hit}"


class Faults:
    """The faults of one ``with``. What they do is the same for the same `seed`, as far as the
    clients do the same.

    They outlive the broker's restarts. At the end all are taken back, also after an exception, and
    what they held up goes on. `fired` tells what they did.

    What the methods for requests have in common: `api` is the protocol's name ("Produce"), or "*"
    for all. `topic`, `partition`: only requests that name it (a Fetch names what its session
    remembers, too); `client_id`: only of that client. `after`: let so many pass first. `times`: hit
    no more than so many; None is no bound. `probability`: hit each with this chance. Raises
    ValueError at once: there is no such API or error (the message has the nearest name), or one
    that names no topics.
    """

    def __init__(self, broker: Broker, seed: int = 0) -> None:
        self._broker = broker
        self._rng = random.Random(seed)
        self._changed = threading.Condition()
        self._request_faults: tuple[RequestFault, ...] = ()
        self._storage_faults: tuple[StorageFault, ...] = ()
        self._fired: deque[Fired] = deque(maxlen=FIRED_MAX)
        self._is_in_use = False

    def __enter__(self) -> Faults:
        if self._is_in_use:
            raise RuntimeError("these faults are in use already: make others")
        self._broker._hooks.add(self._show, self._ask, self.cancel)
        self._is_in_use = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_in_use = False
        self._broker._hooks.remove(self._show, self._ask, self.cancel)
        self.cancel()

    def __repr__(self) -> str:
        return listing(f"<{len(self._fired)} faults fired>", self.fired)

    @property
    def fired(self) -> list[Fired]:
        """What was done to which request or file, oldest first: the last 10,000."""
        return list(self._fired)

    def cancel(self) -> None:
        """Take back all faults, as each one's `cancel` does."""
        for fault in (*self._request_faults, *self._storage_faults):
            fault.cancel()
        self._request_faults, self._storage_faults = (), ()

    # --- requests

    def fail(
        self,
        api: str,
        error: str | ErrorCode = "NOT_LEADER_OR_FOLLOWER",
        *,
        times: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        after: int = 0,
        probability: float = 1.0,
    ) -> Fault:
        """Answer with an error, without doing what was asked for.

        With `topic` or `partition` that part of the request alone, and the rest is carried out,
        where the protocol has an answer for each (Produce, Fetch, ListOffsets, Metadata,
        OffsetCommit, OffsetForLeaderEpoch, DeleteRecords); else the whole request.
        """
        which = self._which(api, topic, partition, client_id, times, after, probability)
        return self._add(ErrorFault(find_error(error), which, self._rng, self._changed))

    def delay(
        self,
        api: str,
        *,
        ms: float = 0,
        seconds: float = 0,
        times: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        after: int = 0,
        probability: float = 1.0,
    ) -> Fault:
        """Let requests wait before they are begun, and with each what its connection sends after
        it: a slow network, or a slow broker.

        Time is the broker's: `broker.clock.advance` shortens it. A request whose client gave up
        meanwhile is carried out all the same.
        """
        if ms < 0 or seconds < 0 or not (ms or seconds):
            raise ValueError(f"ms={ms}, seconds={seconds}: expected a delay of more than 0")
        which = self._which(api, topic, partition, client_id, times, after, probability)
        return self._add(DelayFault(ms + seconds * 1000, which, self._rng, self._changed, self._on_owner))

    def disconnect(
        self,
        api: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        after: int = 0,
        probability: float = 1.0,
    ) -> Fault:
        """Close the connection in place of beginning a request."""
        return self._add(
            DisconnectFault(
                self._which(api, topic, partition, client_id, times, after, probability), self._rng, self._changed
            )
        )

    def drop_reply(
        self,
        api: str,
        *,
        times: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        after: int = 0,
        probability: float = 1.0,
    ) -> Fault:
        """Do what was asked for, then close the connection in place of the answer: the client can't
        know whether it was done.
        """
        return self._add(
            DropReplyFault(
                self._which(api, topic, partition, client_id, times, after, probability), self._rng, self._changed
            )
        )

    def partition_network(self, client_id: str | None = None) -> NetworkPartition:
        """Let nothing through between this client (None: any) and the broker, either way, until
        `heal` or the end of the ``with``.

        Nothing is closed, and nothing refused: requests wait, answers too, new connections are
        taken and then hear nothing. What the operating system already has of an answer arrives.
        """
        which = FaultFilter(client_id=client_id)
        fault = self._add(NetworkPartition(which, self._rng, self._changed, self._on_owner))
        self._on_owner(lambda: fault.begin(list(self._broker._server.connections.sessions)))
        return fault

    # --- the disk

    def disk_full(self, topic: str | None = None, *, free_bytes: int = 0) -> Fault:
        """Refuse what needs room on the disk, of one topic or of all, as a full disk does; it takes
        `free_bytes` before.

        An append that finds no room is refused (KAFKA_STORAGE_ERROR) and leaves nothing behind;
        reads go on, and appends too once the fault is cancelled. The metadata store has room:
        topics that don't need files yet can be made.
        """
        if free_bytes < 0:
            raise ValueError(f"free_bytes={free_bytes}: expected a number from 0 on")
        return self._add(DiskFullFault(topic, free_bytes, self._rng, self._changed))

    def torn_write(self, topic: str | None = None, *, times: int | None = 1, after: int = 0) -> Fault:
        """Write only a part of a batch, of a length that the seed gives, then fail with EIO. The
        log is read-only until the restart.
        """
        return self._add(TornWriteFault(topic, times, after, self._rng, self._changed))

    # --- scripts

    def script(self, steps: Iterable[Mapping[str, Any]]) -> list[Fault]:
        """Make faults of plain data, in this order: ``[{"fail": "Produce", "times": 2}, {"delay":
        "Fetch", "ms": 50}]``.

        Each step names a method and its first argument, and its keywords besides. Raises:
        ValueError: there is no such method.
        """
        made = []
        for step in steps:
            names = [name for name in step if name in SCRIPTED]
            if len(names) != 1:
                raise ValueError(
                    f"{dict(step)}: expected one of {', '.join(SCRIPTED)}, found {', '.join(names) or 'none'}"
                )
            keywords = {name: value for name, value in step.items() if name != names[0]}
            make: Callable[..., Fault] = getattr(self, names[0])
            made.append(make(step[names[0]], **keywords))
        return made

    # --- inside

    def _add(self, fault: F) -> F:
        if not self._is_in_use:
            raise RuntimeError("faults are made inside of their `with`")
        with self._changed:
            if isinstance(fault, RequestFault):
                self._request_faults += (fault,)
            elif isinstance(fault, StorageFault):
                self._storage_faults += (fault,)
        return fault

    def _which(
        self,
        api: str,
        topic: str | None,
        partition: int | None,
        client_id: str | None,
        times: int | None,
        after: int,
        probability: float,
    ) -> FaultFilter:
        name = api if api == ANY_API else find_api(api).name
        if (topic is not None or partition is not None) and name not in (ANY_API, *APIS_WITH_TOPICS):
            raise ValueError(f"{name} requests name no topics: leave out topic and partition")
        return FaultFilter(name, topic, partition, client_id, times, after, probability)

    def _show(self, asked: InterceptedRequest) -> None:
        """Let each fault have its turn with a request; on the broker's thread."""
        for fault in self._request_faults:
            if asked.settled:
                return
            if asked.drops and not isinstance(fault, HoldFault):
                continue
            if fault not in asked.passed and fault.is_active and fault.which.fits(asked):
                asked.passed.add(fault)
                if fault.strikes():
                    self._note(fault, asked)
                    fault.apply(asked)

    def _ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        for fault in self._storage_faults:
            failure = fault.ask(kind, path, size)
            if failure is not None:
                self._fired.append(Fired(self._broker.clock.now(), fault.what, path=path))
                return failure
        return None

    def _note(self, fault: Fault, asked: InterceptedRequest) -> None:
        broker = asked.call.broker
        time = datetime.fromtimestamp(broker.clock.wall_ms() / 1000, UTC)
        named = accessed_topics(asked.request, asked.api, broker)
        topics = tuple(dict.fromkeys(one.topic if isinstance(one.topic, str) else one.topic.hex() for one in named))
        self._fired.append(
            Fired(time, fault.what, asked.api, asked.version, asked.call.client_id, asked.connection.address, topics)
        )

    def _on_owner(self, run: Callable[[], None]) -> None:
        """Run on the broker's thread, and send what it made answerable; nothing happens while the
        broker does not run.
        """

        async def work() -> None:
            run()
            self._broker._server.connections.flush()

        with self._broker._lock:
            if self._broker.is_running:
                self._broker._call(work)


SCRIPTED = ("fail", "delay", "disconnect", "drop_reply", "partition_network", "disk_full", "torn_write")


def find_error(error: str | ErrorCode) -> ErrorCode:
    """The error of this name, capital letters or not.

    Raises ValueError: there is none (the message has the nearest name), or it is NONE.
    """
    if isinstance(error, str):
        found = ErrorCode.__members__.get(error.upper())
        if found is None:
            nearest = get_close_matches(error.upper(), ErrorCode.__members__, 1, 0.0)[0]
            raise ValueError(f"there is no error {error!r}; did you mean {nearest!r}?")
        error = found
    if error is ErrorCode.NONE:
        raise ValueError("NONE is not an error")
    return error


def faults(broker: Broker, seed: int = 0) -> Faults:
    """Faults for `broker`, an embedded one, inside of a ``with``; it may be started and stopped
    meanwhile.
    """
    return Faults(broker, seed)
