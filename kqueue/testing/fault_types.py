"""The kinds of injected faults: each selects requests or files and changes their outcome."""

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
from kqueue.base.clock import monotonic_s
from kqueue.base.errors import DiskFull, StorageFailed
from kqueue.embedded.argument_checks import check_kind
from kqueue.embedded.event_loops import check_may_block
from kqueue.embedded.held_traffic import HeldTraffic
from kqueue.network.contract import Connection
from kqueue.network.interception import HeldRequest, InterceptedRequest
from kqueue.security.certificates import DAYS
from kqueue.storage.fault_injection import InjectedFailure
from kqueue.testing.fault_responses import PartitionFilter, is_meant, refuse
from kqueue.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker

ANY_API = "*"
TAKES_ROOM = {"append": "write to", "create": "create", "make_folder": "make folder", "write_atomic": "write"}
"""Operations that a full disk refuses, with the verb of their error message."""


@dataclass(frozen=True, slots=True)
class FaultFilter:
    """Selects the requests that a fault applies to; None selects all.

    Args:
        times: maximum number of requests that the fault applies to; None: no limit.
        after: number of matching requests that pass first.
        probability: chance that the fault applies to a matching request, above 0 and up to 1.
    """

    api: str = ANY_API
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    times: int | None = None
    after: int = 0
    probability: float = 1.0
    listener: str | None = None

    def __post_init__(self) -> None:
        for name in ("topic", "client_id", "listener"):
            if getattr(self, name) is not None:
                check_kind(name, getattr(self, name), str, "one name, or None for all")
        for name in ("partition", "times"):
            if getattr(self, name) is not None:
                check_kind(name, getattr(self, name), int, "a number, or None for all")
        check_kind("after", self.after, int, "a number of requests")
        check_kind("probability", self.probability, (int, float), "a number above 0 and up to 1")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times={self.times}: expected at least 1, or None for no limit")
        if self.after < 0:
            raise ValueError(f"after={self.after}: expected at least 0")
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability={self.probability}: expected a number above 0 and up to 1")

    def __str__(self) -> str:
        filters = ("topic", "partition", "client_id")
        return " ".join(
            [self.api, *(f"{name}={getattr(self, name)!r}" for name in filters if getattr(self, name) is not None)]
        )

    @property
    def choice(self) -> PartitionFilter:
        """The topic and partition part of the filter."""
        return PartitionFilter(self.topic, self.partition)

    def fits(self, asked: InterceptedRequest) -> bool:
        """Whether the request matches; `after`, `times` and `probability` are not considered."""
        if self.api not in (ANY_API, asked.api) or (
            self.client_id is not None and self.client_id != asked.call.client_id
        ):
            return False
        if self.listener is not None and self.listener != asked.connection.listener:
            return False
        return is_meant(asked, self.choice)


class Fault:
    """One injected fault, active until it is cancelled or used up; a context manager.

    `count` is the number of times that it was applied.
    Thread: all methods may be called from any thread except the broker's.
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
        """Whether the fault can still be applied."""
        times = self.which.times
        return not self._cancelled and (times is None or self.count < times)

    def cancel(self) -> None:
        """End the fault and release the requests that it holds; may be called repeatedly."""
        with self._changed:
            self._cancelled = True

    def wait(self, count: int = 1, timeout_s: float = 10) -> None:
        """Wait until the fault was applied `count` times.

        Raises:
            TimeoutError: it was not applied often enough within `timeout_s`.
            RuntimeError: the thread runs an event loop; use ``await asyncio.to_thread(fault.wait)``
                there.
        """
        if timeout_s > 0:
            check_may_block("await asyncio.to_thread(fault.wait)")
        until_s = monotonic_s() + timeout_s
        with self._changed:
            while self.count < count:
                if not self._changed.wait(max(until_s - monotonic_s(), 0)):
                    raise TimeoutError(
                        f"{self.what}: expected to be applied {count} times within {timeout_s} s, "
                        f"found {self.count} times"
                    )

    def strikes(self) -> bool:
        """Count a match and return whether the fault applies to it."""
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
    """A fault of requests.

    Thread: `apply` runs on the broker's thread.
    """

    def apply(self, asked: InterceptedRequest) -> None:
        """Apply the fault to this request."""
        raise NotImplementedError


class ErrorFault(RequestFault):
    """Answers requests with an error."""

    def __init__(self, error: ErrorCode, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        super().__init__(f"fail {which} with {error.name}", which, rng, changed)
        self._error = CodedError(error, f"injected fault: {error.name}")

    def apply(self, asked: InterceptedRequest) -> None:
        refuse(asked, self._error, self.which.choice)


class DisconnectFault(RequestFault):
    """Closes the connection instead of executing the request."""

    def __init__(self, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        super().__init__(f"disconnect {which}", which, rng, changed)

    def apply(self, asked: InterceptedRequest) -> None:
        asked.cut(f"injected fault: {self.what}")


class DropReplyFault(RequestFault):
    """Executes the request and closes the connection instead of sending the response."""

    def __init__(self, which: FaultFilter, rng: Random, changed: threading.Condition) -> None:
        super().__init__(f"drop_reply {which}", which, rng, changed)

    def apply(self, asked: InterceptedRequest) -> None:
        asked.drop_reply()


class HoldFault(RequestFault):
    """Holds requests until it is cancelled.

    `on_owner` runs a function on the broker's thread, if the broker is running.
    """

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
        self._on_owner(self._release_all)

    def _release_all(self) -> None:
        while self._held:
            held, _ = self._held.popitem()
            held.release()

    def _hold(self, asked: InterceptedRequest) -> HeldRequest:
        held = asked.hold()
        self._held[held] = None
        return held


class DelayFault(HoldFault):
    """Holds each request for a fixed time on the broker's clock."""

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
        broker.scheduler.timers.at(broker.scheduler.clock.monotonic_ms() + self._ms, lambda: self._over(held))

    def _over(self, held: HeldRequest) -> None:
        if self._held.pop(held, False) is None:
            held.release()


class NetworkPartition(HoldFault):
    """Blocks all traffic between a client and the broker until `heal`."""

    def __init__(
        self,
        which: FaultFilter,
        rng: Random,
        changed: threading.Condition,
        on_owner: Callable[[Callable[[], None]], None],
    ) -> None:
        clients = "all clients" if which.client_id is None else repr(which.client_id)
        super().__init__(f"partition_network of {clients}", which, rng, changed, on_owner)
        self._traffic = HeldTraffic()

    def heal(self) -> None:
        """Deliver the blocked traffic and end the fault; the same as `cancel`."""
        self.cancel()

    def begin(self, connections: list[Connection]) -> None:
        """Block the existing connections.

        Thread: the broker's.
        """
        for connection in connections:
            call = connection.call
            if self.which.client_id is None or (call is not None and call.client_id == self.which.client_id):
                self._traffic.suspend(connection)

    def apply(self, asked: InterceptedRequest) -> None:
        self._traffic.hold(asked)

    def _release_all(self) -> None:
        self._traffic.release()


class CertificateFault(Fault):
    """Makes the broker's certificate expire."""

    def __init__(self, renew: Callable[[float], None], rng: Random, changed: threading.Condition) -> None:
        """Take what replaces the certificate by one that expires after so many days."""
        super().__init__("expire the certificate", FaultFilter(), rng, changed)
        self._renew = renew

    def begin(self) -> None:
        """Replace the certificate."""
        self._renew(-1)

    def cancel(self) -> None:
        """Give the broker a valid certificate again."""
        was_active = self.is_active
        super().cancel()
        if was_active:
            self._renew(DAYS)


class StorageFault(Fault):
    """A fault of files.

    Thread: `ask` is called from several threads.
    """

    def __init__(
        self, what: str, topic: str | None, times: int | None, after: int, rng: Random, changed: threading.Condition
    ) -> None:
        about = "" if topic is None else f" of topic {topic!r}"
        super().__init__(what + about, FaultFilter(topic=topic, times=times, after=after), rng, changed)

    def fits(self, path: str) -> bool:
        """Whether the file belongs to the selected topic, by its folder ``<topic>-<partition>``."""
        topic = self.which.topic
        return topic is None or path.partition("/")[0].rpartition("-")[0] == topic

    def ask(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        """Return the failure of this operation; None: it succeeds."""
        raise NotImplementedError


class DiskFullFault(StorageFault):
    """Refuses operations that need disk space, after `free_bytes` more were written."""

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
    """Writes a random part of a log append, then fails with EIO."""

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
    """Return an error with the message that a real disk's error has."""
    kind = DiskFull if number == errno.ENOSPC else StorageFailed
    return kind(f"can't {what} {path}: {errno.errorcode[number]}, {os.strerror(number)}")
