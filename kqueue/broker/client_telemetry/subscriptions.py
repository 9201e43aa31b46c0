"""Client telemetry: which metrics each client pushes, how often, and the checks of its pushes.

Subscriptions are client metrics resources (``kafka-client-metrics.sh``): `metrics`, `interval.ms`,
`match`. A client gets all metrics of the subscriptions that match it, at the shortest interval.
Source: KIP-714, Kafka's ClientMetricsManager.
"""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crc32c import crc32c

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import (
    InvalidRecord,
    InvalidRequest,
    KqueueError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCodec,
)
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.names import UUID_ZERO, random_uuid, uuid_text
from kqueue.base.promise import Promise
from kqueue.base.timers import Timers
from kqueue.broker.client_telemetry.otlp_metrics import check_payload
from kqueue.broker.client_telemetry.receivers import SETTING, ClientMetricsPush, Receiver, open_receiver
from kqueue.broker.config import MATCH_STATES_MAX
from kqueue.records.codecs import CODECS
from kqueue.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kqueue.base.linear_regex import LinearRegex

logger = logging.getLogger("kqueue.telemetry")
ALL_METRICS = "*"
INTERVAL_MS_DEFAULT = 300_000
"""Interval at which a client without a subscription asks again."""
INSTANCES_MAX = 10_000
SUBJECT_LENGTH_MAX = 64
"""Parts of a client's identity are cut to so many characters."""
SUBSCRIPTIONS_MAX = 50
"""Subscriptions that are compared with a client, by name; more are ignored."""
EXPIRY_MS_MIN = 60_000
INTERVALS_KEPT = 3
CODEC_IDS = (4, 3, 1, 2)
"""Accepted compression types, in the order of Kafka: zstd, lz4, gzip, snappy."""
EXPANSION_MAX = 4
"""A payload may decompress to so many times `telemetry.max.bytes`."""
JOB_QUEUE = "client metrics"


class ClientIdentity(NamedTuple):
    """The fields of a client that `match` compares: fields by the names of its keys."""

    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class SubscriptionSource(Protocol):
    """The client metrics resources. `generation` changes with them."""

    generation: int

    def names(self) -> list[str]:
        """Return the names, sorted."""
        ...

    def values(self, resource: str) -> Mapping[str, Any]:
        """Return the values in force of one."""
        ...


class _Subscription(NamedTuple):
    metrics: Sequence[str]
    interval_ms: int
    patterns: Sequence[tuple[str, LinearRegex]]


@dataclass(slots=True)
class ClientInstance:
    """A client, from its first request until it is idle for long. Times in monotonic ms; -inf:
    never. `owner`: the only principal that may use the id meanwhile.
    """

    id: bytes
    owner: Principal
    generation: int
    subscription_id: int
    metrics: Sequence[str]
    interval_ms: int
    used_ms: float
    get_ms: float = float("-inf")
    push_ms: float = float("-inf")
    terminating: bool = False
    may_get: bool = False  # the last push was refused so that the client has to ask again
    may_push: bool = True  # at once: it has asked, and not pushed since

    def is_expired(self, now_ms: float) -> bool:
        """Return whether it has been idle for so long that it is forgotten."""
        return now_ms - self.used_ms > max(EXPIRY_MS_MIN, INTERVALS_KEPT * self.interval_ms)


class ClientTelemetry:
    """The clients of one broker that push metrics. At most `INSTANCES_MAX` are kept in memory."""

    def __init__(
        self,
        subscriptions: SubscriptionSource,
        receiver: Receiver | None,
        bytes_max: int,
        *,
        clock: Clock,
        rng: random.Random,
        timers: Timers,
        jobs: Jobs,
        wake: Callable[[Promise[None]], None],
    ) -> None:
        """Take the parts. `bytes_max`: size of a compressed payload. `wake`: called with each
        promise that `push` returned, when it is done.
        """
        self.receiver = receiver
        self._jobs = jobs
        self._wake = wake
        self.bytes_max = bytes_max
        self._source = subscriptions
        self._clock = clock
        self._rng = rng
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._subscriptions: list[_Subscription] = []
        self._generation = -1
        self._forwards: list[Receiver] = []
        self._timers = timers
        if receiver is not None:
            self._begin()

    def __len__(self) -> int:
        return len(self._instances)

    @property
    def is_enabled(self) -> bool:
        """Whether there is a receiver; without one clients are not asked."""
        return self.receiver is not None or bool(self._forwards)

    def forward_to(self, receiver: Receiver) -> None:
        """Give each push to `receiver` too, which must return at once."""
        if not self.is_enabled:
            self._begin()
        self._forwards.append(receiver)

    def _begin(self) -> None:
        self._timers.every(EXPIRY_MS_MIN, self._expire)

    def subscribe(
        self, instance_id: bytes, identity: ClientIdentity, principal: Principal = ANONYMOUS
    ) -> ClientInstance:
        """Return what a client shall push. `instance_id` zero, or another principal's: it gets a
        new one.

        Raises: ThrottlingQuotaExceeded: it asked less than its interval ago.
        """
        now_ms = self._clock.monotonic_ms()
        is_new = instance_id == UUID_ZERO or self._is_of_another(instance_id, principal)
        instance = self._instance(random_uuid(self._rng) if is_new else instance_id, identity, principal, now_ms)
        if now_ms - max(instance.get_ms, instance.push_ms) < instance.interval_ms and not instance.may_get:
            raise _too_early(instance)
        instance.get_ms = now_ms
        instance.may_get, instance.may_push = False, True
        return instance

    def push(
        self, instance_id: bytes, identity: ClientIdentity, subscription_id: int, codec_id: int, data: bytes,
        *, terminating: bool, principal: Principal = ANONYMOUS,
    ) -> Promise[None]:  # fmt: skip
        """Check a push and give it to the receiver. A job reads the payload, for up to 20 ms.

        Returns: a promise that is done when the receiver has it. It fails with InvalidRecord: the
            payload can't be read, or the receiver failed.
        Raises: InvalidRequest, ThrottlingQuotaExceeded, UnknownSubscriptionId, UnsupportedCodec,
            TelemetryTooLarge.
        """
        if instance_id == UUID_ZERO:
            raise InvalidRequest("a push needs the client instance id that GetTelemetrySubscriptions returned")
        if self._is_of_another(instance_id, principal):  # as an id that has no such subscription
            raise UnknownSubscriptionId(f"the client instance has no subscription {subscription_id}")
        now_ms = self._clock.monotonic_ms()
        instance = self._instance(instance_id, identity, principal, now_ms)
        if instance.terminating:
            raise InvalidRequest(f"client instance {uuid_text(instance_id)} has pushed its last metrics")
        is_early = not instance.may_push and now_ms - instance.push_ms < instance.interval_ms
        if is_early and not terminating:
            raise _too_early(instance)
        instance.push_ms, instance.may_push = now_ms, False
        instance.may_get = True  # until the checks are passed
        self._check(instance, subscription_id, codec_id, data)
        instance.may_get = False
        instance.terminating = terminating
        promise: Promise[None] = Promise()
        if data:
            receive = partial(self._receive, instance_id, identity, terminating=terminating)
            self._jobs.submit(self._reading(promise, codec_id, bytes(data), receive))
        else:
            promise.resolve(None)
        return promise

    def _reading(
        self, promise: Promise[None], codec_id: int, data: bytes, receive: Callable[[bytes], None]
    ) -> IoJob[bytes]:
        def finish(payload: bytes | None, error: BaseException | None) -> None:
            try:
                if payload is None:
                    raise InvalidRecord(f"the metrics can't be read: {error}")
                receive(payload)
            except KqueueError as failure:
                promise.fail(failure)
            else:
                promise.resolve(None)
            self._wake(promise)

        run = partial(read_payload, codec_id, data, self.bytes_max * EXPANSION_MAX)
        return IoJob("read metrics of a client", run, finish, JOB_QUEUE)

    def _check(self, instance: ClientInstance, subscription_id: int, codec_id: int, data: bytes) -> None:
        if subscription_id != instance.subscription_id:
            raise UnknownSubscriptionId(f"the subscription is {instance.subscription_id} now, not {subscription_id}")
        if codec_id not in (0, *CODEC_IDS):
            raise UnsupportedCodec(f"metrics are compressed with one of {CODEC_IDS}, not {codec_id}")
        if len(data) > self.bytes_max:
            instance.may_get = False
            raise TelemetryTooLarge(f"metrics have at most {self.bytes_max} bytes, found {len(data)}")

    def _receive(self, instance_id: bytes, identity: ClientIdentity, payload: bytes, *, terminating: bool) -> None:
        push = ClientMetricsPush(
            uuid_text(instance_id),
            identity.client_id,
            identity.client_software_name,
            identity.client_software_version,
            identity.client_source_address,
            int(self._clock.wall_ms()),
            terminating,
            payload,
        )
        try:
            for receive in self._forwards:
                receive(push)
            if self.receiver is not None:
                self.receiver(push)
        except Exception as error:  # a program's own code may raise anything
            events.CLIENT_METRICS_RECEIVER_FAILED.log(logger, "the receiver of client metrics failed: %r", error=error)
            raise InvalidRecord("the receiver of client metrics failed; the broker's log says why") from None

    def _is_of_another(self, id: bytes, principal: Principal) -> bool:
        instance = self._instances.get(id)
        return instance is not None and instance.owner != principal

    def _instance(self, id: bytes, identity: ClientIdentity, principal: Principal, now_ms: float) -> ClientInstance:
        """Return the client, a new one if it is unknown or its subscriptions have changed."""
        self._refresh()
        instance = self._instances.get(id)
        if instance is None or instance.generation != self._generation:
            instance = self._instances[id] = self._make(id, identity, principal, now_ms)
            if len(self._instances) > INSTANCES_MAX:
                self._instances.popitem(last=False)
        instance.used_ms = now_ms
        self._instances.move_to_end(id)
        return instance

    def _make(self, id: bytes, identity: ClientIdentity, owner: Principal, now_ms: float) -> ClientInstance:
        values = {**identity._asdict(), "client_instance_id": uuid_text(id)}
        matching = [
            one for one in self._subscriptions if all(pattern.fullmatch(values[key]) for key, pattern in one.patterns)
        ]
        metrics = sorted({metric for one in matching for metric in one.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        interval_ms = min((one.interval_ms for one in matching), default=INTERVAL_MS_DEFAULT)
        number = crc32c(f"{metrics} {interval_ms}".encode()) ^ crc32c(id)
        subscription_id = number - (1 << 32) if number >= 1 << 31 else number
        return ClientInstance(id, owner, self._generation, subscription_id, metrics, interval_ms, now_ms)

    def _refresh(self) -> None:
        if self._generation == self._source.generation:
            return
        self._generation = self._source.generation
        self._subscriptions = []
        for name in self._source.names()[:SUBSCRIPTIONS_MAX]:
            values = self._source.values(name)
            try:
                patterns = [_match(item) for item in values["match"]]
            except ValueError as error:  # stored by an older version
                events.CLIENT_METRICS_SUBSCRIPTION_IGNORED.log(
                    logger, "client metrics subscription %s is ignored: %s", subscription=name, error=error
                )
                continue
            if values["metrics"]:
                self._subscriptions.append(_Subscription(values["metrics"], values["interval.ms"], patterns))

    def _expire(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for id in [id for id, instance in self._instances.items() if instance.is_expired(now_ms)]:
            del self._instances[id]


def read_payload(codec_id: int, data: bytes, bytes_max: int) -> bytes:
    """Return the decompressed payload of a push, checked. Thread: any.

    Raises: CorruptData, DecompressedTooLarge.
    """
    codec = CODECS.by_id(codec_id) if codec_id else None
    payload = data if codec is None else codec.decompress(data, bytes_max)
    check_payload(payload)
    return payload


def open_telemetry(
    config: Config,
    subscriptions: SubscriptionSource,
    clock: Clock,
    rng: random.Random,
    timers: Timers,
    jobs: Jobs,
    wake: Callable[[Promise[None]], None],
) -> ClientTelemetry:
    """Return the telemetry of a broker with these settings. Raises SettingError: its receiver can't
    be used.
    """
    receiver = open_receiver(config[SETTING])
    bytes_max = config["telemetry.max.bytes"]
    return ClientTelemetry(
        subscriptions, receiver, bytes_max, clock=clock, rng=rng, timers=timers, jobs=jobs, wake=wake
    )


def identity_of(client_id: str | None, software: tuple[str, str], address: str, port: str) -> ClientIdentity:
    """Return an identity with each part cut to `SUBJECT_LENGTH_MAX` characters."""
    parts = (client_id or "", *software, address, port)
    return ClientIdentity(*(part[:SUBJECT_LENGTH_MAX] for part in parts))


def _match(item: str) -> tuple[str, LinearRegex]:
    key, _, pattern = item.partition("=")
    from kqueue.base.linear_regex import LinearRegex  # on use: most brokers have no subscriptions

    return key.strip(), LinearRegex(pattern, MATCH_STATES_MAX, java=True)


def _too_early(instance: ClientInstance) -> ThrottlingQuotaExceeded:
    return ThrottlingQuotaExceeded(
        f"client instance {uuid_text(instance.id)} sends at most once in {instance.interval_ms} ms"
    )
