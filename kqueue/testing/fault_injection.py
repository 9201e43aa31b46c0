"""Fault injection for an embedded broker.

    with kqueue.testing.faults(broker) as faults:
        faults.fail("Produce", times=3)

Faults apply in the order in which they were added: each sees the requests that earlier faults let
pass. A request gets one final outcome: it fails, or its connection is closed, or its reply is
dropped. Delays and errors for a part of it may be combined with that outcome. A fault that is used
up (`times`) lets requests pass to the next one, so that a list of faults is a script.
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
from kqueue.base.names import did_you_mean
from kqueue.embedded.argument_checks import check_kind
from kqueue.embedded.node import EmbeddedNode
from kqueue.embedded.request_log import TOPICS_SHOWN, legible, listing
from kqueue.network.interception import InterceptedRequest
from kqueue.security.authorizer import Action
from kqueue.security.operations import ResourceType
from kqueue.storage.fault_injection import InjectedFailure
from kqueue.testing.deny_fault import DenyFault
from kqueue.testing.fault_types import (
    ANY_API,
    CertificateFault,
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
from kqueue.testing.network_profiles import NETWORK_PROFILES, NetworkProfile, NetworkShape, network_profile
from kqueue.wire.error_codes import ErrorCode

__all__ = ["Fault", "Faults", "Fired", "NetworkPartition", "faults"]

FIRED_MAX = 10_000
F = TypeVar("F", bound=Fault)


class Fired(NamedTuple):
    """One application of a fault, and the request or file it was applied to.

    Fields are "" or None where they are not known or do not apply.
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
    """The faults of one ``with`` block, reproducible for the same `seed` and client behaviour.

    Faults persist across restarts of the broker. The end of the block cancels all of them, also
    after an exception, and releases held requests. `fired` lists what was done.

    Arguments shared by the methods for requests:
        api: the protocol's name of the request ("Produce"), or "*" for all.
        topic, partition: only requests that name it. A Fetch also names the partitions of its
            session.
        client_id: only requests of this client.
        after: number of matching requests that pass first.
        times: maximum number of requests that the fault applies to; None: no limit.
        probability: chance that the fault applies to a matching request.
    They raise ValueError at once for an unknown API or error (the message suggests the nearest
    name), and for a topic filter on an API that names no topics.
    """

    def __init__(self, broker: EmbeddedNode, seed: int = 0) -> None:
        """Raises: TypeError: `broker` is no broker of this process."""
        if not isinstance(broker, EmbeddedNode):
            of_cluster = ", such as faults(cluster[0])" if hasattr(broker, "brokers") else ""
            raise TypeError(f"faults({broker!r}): expected one broker of this process{of_cluster}")
        self._broker = broker
        self._seed = seed
        self._rng = random.Random(seed)
        self._changed = threading.Condition()
        self._request_faults: tuple[RequestFault, ...] = ()
        self._storage_faults: tuple[StorageFault, ...] = ()
        self._certificate_faults: tuple[CertificateFault, ...] = ()
        self._denials: tuple[DenyFault, ...] = ()
        self._fired: deque[Fired] = deque(maxlen=FIRED_MAX)
        self._is_in_use = False

    def __enter__(self) -> Faults:
        if self._is_in_use:
            raise RuntimeError("these faults are already in use: create new ones with faults(broker)")
        self._broker._hooks.add(self._apply_faults, self._storage_failure, self.cancel)
        self._is_in_use = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_in_use = False
        self._broker._hooks.remove(self._apply_faults, self._storage_failure, self.cancel)
        self.cancel()

    def __repr__(self) -> str:
        return listing(f"<{len(self._fired)} faults fired>", self.fired)

    @property
    def fired(self) -> list[Fired]:
        """The last 10,000 applications of faults, oldest first."""
        return list(self._fired)

    def cancel(self) -> None:
        """Cancel all faults."""
        for fault in (*self._request_faults, *self._storage_faults, *self._certificate_faults, *self._denials):
            fault.cancel()
        self._request_faults, self._storage_faults = (), ()
        self._certificate_faults, self._denials = (), ()

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
        """Answer requests with an error instead of executing them.

        With `topic` or `partition` only that part of the request fails, for APIs with a response
        per partition: Produce, Fetch, ListOffsets, Metadata, OffsetCommit, OffsetForLeaderEpoch,
        DeleteRecords. Requests of other APIs fail as a whole.
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
        """Delay requests, and all later requests of the same connection, before execution.

        The delay is measured on the broker's clock, which `broker.clock.advance` moves. A request
        is executed even if its client disconnected during the delay.

        Args:
            ms: delay in milliseconds, added to `seconds`.
            seconds: delay in seconds.
        Raises: ValueError: the delay is not above 0.
        """
        for unit, number in (("ms", ms), ("seconds", seconds)):
            check_kind(unit, number, (int, float), "a number, such as ms=50")
        if ms < 0 or seconds < 0 or not (ms or seconds):
            raise ValueError(f"ms={ms}, seconds={seconds}: expected a delay above 0")
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
        """Close the connection instead of executing a request."""
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
        """Execute a request, then close the connection instead of sending the response.

        The client cannot know whether the request was executed.
        """
        return self._add(
            DropReplyFault(
                self._which(api, topic, partition, client_id, times, after, probability), self._rng, self._changed
            )
        )

    def partition_network(self, client_id: str | None = None) -> NetworkPartition:
        """Block traffic between a client and the broker until `heal` or the end of the ``with``.

        No connection is closed or refused: requests and responses wait, and new connections get no
        response. Response bytes that the operating system already holds are still delivered.

        Args:
            client_id: the client; None: all clients.
        """
        which = FaultFilter(client_id=client_id)
        fault = self._add(NetworkPartition(which, self._rng, self._changed, self._on_owner))
        self._on_owner(lambda: fault.begin(list(self._broker._server.connections.sessions)))
        return fault

    def shape_network(
        self,
        profile: str | NetworkProfile | None = None,
        *,
        client_id: str | None = None,
        listener: str | None = None,
        latency_ms: float | None = None,
        jitter_ms: float | None = None,
        bytes_per_s: float | None = None,
        loss: float | None = None,
    ) -> NetworkShape:
        """Slow the network between clients and the broker down, in both directions:
        ``shape_network("3g")``, ``shape_network(latency_ms=80, jitter_ms=20)``.

        Delays are measured on the broker's clock, and drawn from the seed of ``faults(broker,
        seed=1)``, for each client id by itself. `cancel`, or the end of the ``with``, delivers what
        is on its way.

        Args:
            profile: "lan", "wan", "4g", "3g", "satellite" or "flaky", or a `NetworkProfile`; the
                other arguments replace its values. None: a network that costs nothing else.
            client_id, listener: only connections of this client, or of the listener of this name.
            latency_ms, jitter_ms, bytes_per_s, loss: see `NetworkProfile`.
        Raises: ValueError: no such profile or listener (the message suggests the nearest), or a
            value out of its range.
        """
        given = [latency_ms, jitter_ms, bytes_per_s, loss]
        if profile is None and all(value is None for value in given):
            raise ValueError(f"shape_network: expected a profile ({', '.join(NETWORK_PROFILES)}) or latency_ms=, ...")
        shape = network_profile(profile).with_values(
            latency_ms=latency_ms, jitter_ms=jitter_ms, bytes_per_s=bytes_per_s, loss=loss
        )
        broker = self._broker
        if listener is not None and broker.is_running and listener not in broker._server.listener_names:
            names = broker._server.listener_names
            raise ValueError(f"there is no listener {listener!r}{did_you_mean(listener, names)} ({', '.join(names)})")
        which = FaultFilter(client_id=client_id, listener=listener)
        return self._add(
            NetworkShape(
                shape,
                which,
                self._seed,
                self._rng,
                self._changed,
                self._on_owner,
                lambda: broker._server.connections.sessions,
            )
        )

    def deny(self, acl: str, *, times: int | None = None, after: int = 0) -> Fault:
        """Deny what the broker's authorizer allows: ``deny("User:* deny write topic:orders")``.

        Args:
            acl: a line of `kqueue.security.acl_text` that denies.
            times: maximum number of denials; None: no limit.
            after: number of decisions that pass first.
        Raises: RuntimeError: the broker has no authorizer. InvalidRequest: `acl` is no ACL.
        """
        fault = self._add(DenyFault(acl, times, after, self._rng, self._changed, self._note_denial))
        try:
            self._on_owner(lambda: fault.attach(self._broker._server.broker))
        except RuntimeError:
            fault.cancel()
            raise
        return fault

    # --- the disk

    def disk_full(self, topic: str | None = None, *, free_bytes: int = 0) -> Fault:
        """Refuse operations that need disk space, after `free_bytes` more were written.

        A refused append returns KAFKA_STORAGE_ERROR and leaves no data. Reads continue, and appends
        succeed again when the fault is cancelled. The metadata store is not affected: topics that
        need no files yet can be created.

        Args:
            topic: only partitions of this topic; None: all.
        """
        if free_bytes < 0:
            raise ValueError(f"free_bytes={free_bytes}: expected at least 0")
        return self._add(DiskFullFault(topic, free_bytes, self._rng, self._changed))

    def torn_write(self, topic: str | None = None, *, times: int | None = 1, after: int = 0) -> Fault:
        """Write a random part of a batch, then fail with EIO.

        The log is read-only until the broker restarts.
        """
        return self._add(TornWriteFault(topic, times, after, self._rng, self._changed))

    # --- certificates

    def expire_certificate(self) -> Fault:
        """Let the broker show a certificate that expired a day ago, to new connections.

        Existing connections stay. `cancel` gives it a valid certificate again.
        Raises: ValueError: the broker was not made with ``tls=True``.
        """
        certificates = self._broker._security.certificates
        if certificates is None:
            raise ValueError("the broker has no certificate of its own making: expected tls=True")

        def renew(days: float) -> None:
            certificates.renew_broker(days, self._broker._number)
            self._on_owner(self._broker._server.reload_certificates)

        fault = self._add(CertificateFault(renew, self._rng, self._changed))
        fault.begin()
        return fault

    # --- scripts

    def script(self, steps: Iterable[Mapping[str, Any]]) -> list[Fault]:
        """Add faults from plain data, in this order.

        Args:
            steps: each has a method's name with its first argument, and further keyword arguments:
                ``[{"fail": "Produce", "times": 2}, {"delay": "Fetch", "ms": 50}]``.
        Raises: ValueError: a step names no method, or several.
        """
        faults = []
        for step in steps:
            names = [name for name in step if name in SCRIPTED]
            if len(names) != 1:
                raise ValueError(
                    f"{dict(step)}: expected one of {', '.join(SCRIPTED)}, found {', '.join(names) or 'none'}"
                )
            keywords = {name: value for name, value in step.items() if name != names[0]}
            make: Callable[..., Fault] = getattr(self, names[0])
            faults.append(make(step[names[0]], **keywords))
        return faults

    # --- private

    def _add(self, fault: F) -> F:
        if not self._is_in_use:
            raise RuntimeError("faults can only be added inside the `with` block")
        with self._changed:
            if isinstance(fault, RequestFault):
                self._request_faults += (fault,)
            elif isinstance(fault, DenyFault):
                self._denials += (fault,)
            elif isinstance(fault, StorageFault):
                self._storage_faults += (fault,)
            elif isinstance(fault, CertificateFault):
                self._certificate_faults += (fault,)
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
            raise ValueError(f"{name} requests name no topics: omit topic and partition")
        return FaultFilter(name, topic, partition, client_id, times, after, probability)

    def _apply_faults(self, asked: InterceptedRequest) -> None:
        """Apply the faults to a request, in order.

        Thread: the broker's.
        """
        for denial in self._denials:
            if denial.is_active:
                denial.attach(asked.call.broker)  # again after a restart
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

    def _storage_failure(self, kind: str, path: str, size: int) -> InjectedFailure | None:
        for fault in self._storage_faults:
            failure = fault.ask(kind, path, size)
            if failure is not None:
                self._fired.append(Fired(self._now(), fault.what, path=path))
                return failure
        return None

    def _note_denial(self, fault: Fault, action: Action) -> None:
        topics = (action.name,) if action.resource_type is ResourceType.TOPIC else ()
        self._fired.append(Fired(self._now(), fault.what, topics=topics))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._broker._time.wall_ms() / 1000, UTC)

    def _note(self, fault: Fault, asked: InterceptedRequest) -> None:
        broker = asked.call.broker
        named = accessed_topics(asked.request, asked.api, broker)
        topics = tuple(dict.fromkeys(one.topic if isinstance(one.topic, str) else one.topic.hex() for one in named))
        self._fired.append(
            Fired(
                self._now(),
                fault.what,
                asked.api,
                asked.version,
                asked.call.client_id,
                asked.connection.address,
                topics,
            )
        )

    def _on_owner(self, run: Callable[[], None]) -> None:
        """Run a function on the broker's thread and send the responses that it completes.

        Does nothing while the broker is not running.
        """

        async def work() -> None:
            run()
            self._broker._server.connections.flush()

        with self._broker._lock:
            if self._broker.is_running:
                self._broker._call(work)


SCRIPTED = (
    "fail",
    "delay",
    "disconnect",
    "drop_reply",
    "partition_network",
    "shape_network",
    "disk_full",
    "torn_write",
    "deny",
)


def find_error(error: str | ErrorCode) -> ErrorCode:
    """Return the error code of this name, ignoring case.

    Raises: ValueError: there is no such error (the message suggests the nearest name), or it is
        NONE.
    """
    if isinstance(error, str):
        code = ErrorCode.__members__.get(error.upper())
        if code is None:
            nearest = get_close_matches(error.upper(), ErrorCode.__members__, 1, 0.0)[0]
            raise ValueError(f"there is no error {error!r}; did you mean {nearest!r}?")
        error = code
    if not isinstance(error, ErrorCode):
        raise TypeError(f'error={error!r}: expected the name of an error, such as "NOT_LEADER_OR_FOLLOWER"')
    if error is ErrorCode.NONE:
        raise ValueError("NONE is not an error")
    return error


def faults(broker: EmbeddedNode, seed: int = 0) -> Faults:
    """Return a context manager that injects faults into an embedded broker, or into one broker of
    a cluster: ``faults(cluster[0])``.

    The broker may be started and stopped inside the ``with`` block.

    Args:
        seed: seeds probabilities and the length of torn writes.
    """
    return Faults(broker, seed)
