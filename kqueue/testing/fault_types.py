"""What can go wrong on purpose: each fault knows which requests or files it is about, and what it
does to them.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kqueue.api.errors import CodedError
from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.embedded.event_loops import check_may_block
from kqueue.network.contract import Connection
from kqueue.network.interception import HeldRequest, InterceptedRequest
from kqueue.storage.fault_injection import InjectedFailure
from kqueue.testing.fault_responses import PartitionFilter, is_meant, refuse
from kqueue.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

ANY_API = "*"
TAKES_ROOM = {"append": "write to", "create": "create", "make_folder": "make folder", "write_atomic": "write"}
"""What a full disk refuses, and the words of its error."""


@dataclass(frozen=True, slots=True)
class FaultFilter:
    """Which requests a fault is about. The first `after` that match pass; of the others each is hit
    with `probability`, at most `times`.
    """

    api: str = ANY_API
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    times: int | None = None
    after: int = 0
    probability: float = 1.0

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times={self.times}: expected a number from 1 on, or None for always")
        if self.after < 0:
            raise ValueError(f"after={self.after}: expected a number from 0 on")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability={self.probability}: expected more than 0 and at most 1")

    def __str__(self) -> str:
        filters = ("topic", "partition", "client_id")
        return " ".join(
            [self.api, *(f"{name}={getattr(self, name)!r}" for name in filters if getattr(self, name) is not None)]
        )

    @property
    def choice(self) -> PartitionFilter:
        return PartitionFilter(self.topic, self.partition)

    def fits(self, asked: InterceptedRequest) -> bool:
        if self.api not in (ANY_API, asked.api) or (
            self.client_id is not None and self.client_id != asked.call.client_id
        ):
            return False
        return is_meant(asked, self.choice)


class Fault:
    """One thing that goes wrong: as long as it is wanted, and not more often. Usable as a ``with``
    of its own.

    `count` is how often it has struck. All methods may be called from any thread but the broker's.
    """

    def __init__(self, what: str, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        self.what = what
        self.which = which
        self.count = 0
        self._seen = 0
        self._cancelled = False
        self._rng = rng
        self._changed = changed

    def __repr__(self) -> str:
        state = "" if self.is_active else ", over"
        return f"<{self.what}: {self.count} times{state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    @property
    def is_active(self) -> bool:
        """Whether it can still strike."""
        times = self.which.times
        return not self._cancelled and (times is None or self.count < times)

    def cancel(self) -> None:
        """Take it back; what it holds up goes on. Twice is harmless."""
        with self._changed:
            self._cancelled = True

    def wait(self, count: int = 1, timeout_s: float = 10) -> None:
        """Return once it has struck `count` times.

        Raises: TimeoutError: it did not. RuntimeError: on a thread that runs an event loop, where
        it is ``await asyncio.to_thread(fault.wait)``.
        """
        if timeout_s > 0:
            check_may_block("await asyncio.to_thread(fault.wait)")
        with self._changed:
            if not self._changed.wait_for(lambda: self.count >= count, timeout_s):
                raise TimeoutError(
                    f"{self.what}: expected to strike {count} times within {timeout_s} s, it did {self.count} times"
                )

    def strikes(self) -> bool:
        """Count something that fits, and say whether it is hit."""
        with self._changed:
            if not self.is_active:
                return False
            self._seen += 1
            if self._seen <= self.which.after or self._rng.random() >= self.which.probability:
                return False
            self.count += 1
            self._changed.notify_all()
            return True


class RequestFault(Fault):
    """A fault of requests: `apply` runs on the broker's thread."""

    def apply(self, asked: InterceptedRequest) -> None:
        """Do it to this request."""
        raise NotImplementedError


class ErrorFault(RequestFault):
    def __init__(self, error: ErrorCode, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        super().__init__(f"fail {which} with {error.name}", which, rng, changed)
        self._error = CodedError(error, f"a fault that was asked for: {error.name}")

    def apply(self, asked: InterceptedRequest) -> None:
        refuse(asked, self._error, self.which.choice)


class DisconnectFault(RequestFault):
    def __init__(self, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        super().__init__(f"disconnect {which}", which, rng, changed)

    def apply(self, asked: InterceptedRequest) -> None:
        asked.cut(f"a fault that was asked for: {self.what}")


class DropReplyFault(RequestFault):
    def __init__(self, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        super().__init__(f"drop_reply {which}", which, rng, changed)

    def apply(self, asked: InterceptedRequest) -> None:
        asked.drop_reply()


class HoldFault(RequestFault):
    """Keeps requests; `on_owner` runs a function on the broker's thread, if the broker runs."""

    def __init__(
        self,
        what: str,
        which: FaultFilter,
        rng: Random,
        changed: threading.Condition,
        on_owner: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(what, which, rng, changed)
        self._on_owner = on_owner
        self._held: dict[HeldRequest, None] = {}

    def cancel(self) -> None:
        super().cancel()
        self._on_owner(self._let_go)

    def _let_go(self) -> None:
        while self._held:
            held, _ = self._held.popitem()
            held.release()

    def _hold(self, asked: InterceptedRequest) -> HeldRequest:
        held = asked.hold()
        self._held[held] = None
        return held


class DelayFault(HoldFault):
    def __init__(
        self,
        ms: float,
        which: FaultFilter,
        rng: Random,
        changed: threading.Condition,
        on_owner: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(f"delay {which} by {ms:g} ms", which, rng, changed, on_owner)
        self._ms = ms

    def apply(self, asked: InterceptedRequest) -> None:
        broker: Broker = asked.call.broker
        held = self._hold(asked)
        broker.timers.at(broker.clock.monotonic_ms() + self._ms, lambda: self._over(held))

    def _over(self, held: HeldRequest) -> None:
        if self._held.pop(held, False) is None:
            held.release()


class NetworkPartition(HoldFault):
    """A network that lets nothing through between a client and the broker, until `heal`."""

    def __init__(
        self,
        which: FaultFilter,
        rng: Random,
        changed: threading.Condition,
        on_owner: Callable[[Callable[[], None]], None],
    ) -> None:
        whom = "all clients" if which.client_id is None else repr(which.client_id)
        super().__init__(f"partition_network of {whom}", which, rng, changed, on_owner)
        self._silent: dict[Connection, None] = {}

    def heal(self) -> None:
        """Let through again what waits, and all that follows. The same as `cancel`."""
        self.cancel()

    def begin(self, connections: list[Connection]) -> None:
        """Silence the connections that are there already; runs on the broker's thread."""
        for connection in connections:
            call = connection.call
            if self.which.client_id is None or (call is not None and call.client_id == self.which.client_id):
                self._silence(connection)

    def apply(self, asked: InterceptedRequest) -> None:
        self._hold(asked)
        self._silence(asked.connection)

    def _silence(self, connection: Connection) -> None:
        self._silent[connection] = None
        connection.suspend_io()

    def _let_go(self) -> None:
        while self._silent:
            connection, _ = self._silent.popitem()
            connection.resume_io()
        super()._let_go()


class StorageFault(Fault):
    """A fault of files; asked by several threads."""

    def __init__(
        self, what: str, topic: str | None, times: int | None, after: int, rng: Random, changed: threading.Condition
    ) -> None:
        about = "" if topic is None else f" of topic {topic!r}"
        super().__init__(what + about, FaultFilter(topic=topic, times=times, after=after), rng, changed)

    def fits(self, path: str) -> bool:
        """Whether the file is of the topic that is meant: its folder is the topic's name and the
        partition's number.
        """
        topic = self.which.topic
        return topic is None or path.partition("/")[0].rpartition("-")[0] == topic

    def ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        """What goes wrong with this change; None: nothing does."""
        raise NotImplementedError


class DiskFullFault(StorageFault):
    def __init__(self, topic: str | None, free_bytes: int, rng: Random, changed: threading.Condition) -> None:
        super().__init__("disk_full", topic, None, 0, rng, changed)
        self._free_bytes = free_bytes

    def ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        if kind not in TAKES_ROOM or not self.fits(path):
            return None
        with self._changed:
            written = self._free_bytes
            if written and size <= written:
                self._free_bytes -= size
                return None
            if not self.strikes():
                return None
            self._free_bytes = 0
        return InjectedFailure(_failed(TAKES_ROOM[kind], path, errno.ENOSPC), written)


class TornWriteFault(StorageFault):
    def __init__(
        self, topic: str | None, times: int | None, after: int, rng: Random, changed: threading.Condition
    ) -> None:
        super().__init__("torn_write", topic, times, after, rng, changed)

    def ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        if kind != "append" or not path.endswith(".log") or not self.fits(path) or not self.strikes():
            return None
        with self._changed:
            written = self._rng.randrange(size)
        return InjectedFailure(_failed("write to", path, errno.EIO), written)


def _failed(what: str, path: str, number: int) -> StorageFailed:
    """As a real disk's error is worded."""
    kind = DiskFull if number == errno.ENOSPC else StorageFailed
    return kind(f"can't {what} {path}: {errno.errorcode[number]}, {os.strerror(number)}")
