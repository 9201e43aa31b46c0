"""Client quotas of a cluster, kept in its metadata store, and what clients have used of them here.

One entry for each entity, which all brokers observe; each broker bounds what it serves itself, as
in Kafka. Durability: a change is on disk when its promise is done. Rates are in memory only: a
restart forgets them. Memory: at most `RATES_MAX` rates; one whose windows are empty is dropped
first. Source: Kafka's ClientQuotaManager, ControllerMutationQuotaManager,
ClientQuotaControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kqueue.base.clock import Clock, SystemClock
from kqueue.base.config import Config
from kqueue.base.errors import (
    Conflict,
    CorruptData,
    InvalidRequest,
    KqueueError,
    StorageFailed,
)
from kqueue.base.promise import Promise
from kqueue.base.rate_limiter import RateLimiter
from kqueue.base.settings import INT_MAX
from kqueue.broker.access.mutation_quota import MutationQuota
from kqueue.broker.access.security_keys import QUOTAS_PREFIX
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.security.quota_rates import SampledRate
from kqueue.security.quotas import (
    CLIENT_ID_KEPT_MAX,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Limit,
    QuotaEntity,
    QuotaFilter,
    QuotaTable,
    Values,
    check_value,
    from_json,
    to_json,
)

PREFIX = QUOTAS_PREFIX
ATTEMPTS_MAX = 20
"""Commits of one change, of which another broker may be the first each time."""
RATES_MAX = 20_000
"""Rates that are kept at most; the longest unused is forgotten."""
CLIENTS_MAX = 20_000
"""Clients whose quotas are kept resolved."""

QuotaChange = Mapping[str, float | None]
"""New bounds by name; None removes one."""


class QuotaWindows(NamedTuple):
    """Over how many windows rates are measured, their length, and how many seconds' worth of
    changed partitions a client may save.
    """

    number: int = 11
    size_ms: int = 1000
    mutation_s: int = 11

    @classmethod
    def of(cls, config: Config) -> QuotaWindows:
        """Return what the settings ask for."""
        return cls(
            config["quota.window.num"],
            config["quota.window.size.seconds"] * 1000,
            config["controller.quota.window.num"] * config["controller.quota.window.size.seconds"],
        )


class ClientLimits(NamedTuple):
    """The quotas that hold for one client."""

    produce: Limit | None
    fetch: Limit | None
    request: Limit | None
    mutation: Limit | None


class ClientQuotas:
    """The stored quotas, as of the last commit or refresh, and the rates of clients.

    `is_active`: some quota bounds users or client ids. `bounds_addresses`: some bounds addresses.
    """

    _metadata: MetadataCache

    def __init__(self, windows: QuotaWindows | None = None, clock: Clock | None = None) -> None:
        self._windows = windows or QuotaWindows()
        self._clock: Clock = clock or SystemClock()
        self._table = QuotaTable()
        self._by_id: dict[str, QuotaEntity] = {}
        self.is_active = self.bounds_addresses = False
        self._observers: list[Callable[[], None]] = []
        self._resolved: dict[tuple[str, str], ClientLimits] = {}
        self._rates: dict[tuple[str, object], SampledRate] = {}  # the longest unused first
        self._mutations: dict[object, tuple[float, RateLimiter]] = {}
        self.throttled_ms: Counter[str] = Counter()
        """For how long clients were held back since the start, by the quota; where two quotas hold
        one client back at once, each counts its own time.
        """

    # --- what is stored

    def load(self, metadata: MetadataCache) -> None:
        """Take over what the metadata cache has loaded, and follow its changes. Call it once.

        Raises: StorageFailed: an entry can't be read.
        """
        self._metadata = metadata
        try:
            self._apply(metadata.with_prefix(PREFIX))
        except CorruptData as error:
            raise StorageFailed(str(error)) from error
        metadata.observe(PREFIX, self._apply)

    def observe(self, call: Callable[[], None]) -> None:
        """Call now, and after each change of a quota."""
        self._observers.append(call)
        call()

    def _apply(self, changed: Mapping[str, bytes | None]) -> None:
        error: CorruptData | None = None
        for key, value in changed.items():
            former = self._by_id.pop(key, None)
            if former is not None:
                self._table.set(former, {})
            if value is None:
                continue
            try:
                entity, values = from_json(value)
            except CorruptData as unreadable:
                error = unreadable
                continue
            self._by_id[key] = entity
            self._table.set(entity, values)
        self.is_active, self.bounds_addresses = self._table.bounds_clients, self._table.bounds_addresses
        self._resolved.clear()
        for call in self._observers:
            call()
        if error is not None:
            raise error

    def matching(self, quota_filter: QuotaFilter) -> list[tuple[QuotaEntity, Values]]:
        """Return the entities that a filter finds, with their quotas."""
        return [(entity, values) for entity, values in self._table if quota_filter.matches(entity)]

    def check(self, entity: QuotaEntity, change: QuotaChange) -> None:
        """Raise InvalidRequest if the change of an entity can't be made."""
        for key, value in change.items():
            if value is not None:
                check_value(entity, key, value)

    def alter(self, changes: Mapping[QuotaEntity, QuotaChange]) -> Promise[None]:
        """Store checked changes, all in one commit. Raises (by the promise): StorageFailed,
        Conflict.
        """
        promise: Promise[None] = Promise()
        self._commit(changes, promise, ATTEMPTS_MAX)
        return promise

    def _commit(self, changes: Mapping[QuotaEntity, QuotaChange], promise: Promise[None], attempts: int) -> None:
        puts: dict[str, bytes | None] = {}
        for entity, change in changes.items():
            known = self._table.get(entity)
            values = {key: value for key, value in {**known, **change}.items() if value is not None}
            if values != known:
                puts[f"{PREFIX}{entity.id}"] = to_json(entity, values).encode() if values else None
        if not puts:
            self._metadata.resolve(promise, None)
            return

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._metadata.resolve(promise, None)
            elif isinstance(error, Conflict) and attempts > 1:
                self._commit(changes, promise, attempts - 1)  # another broker changed one, which is known now
            else:
                self._metadata.fail(promise, error)

        self._metadata.commit("alter client quotas", puts, done)

    # --- what clients use

    def limits_of(self, user: str, client_id: str | None) -> ClientLimits:
        """Return the quotas that hold for a client; no client id is an empty one."""
        client_id = client_id or ""
        limits = self._resolved.get((user, client_id))
        if limits is None:
            limit = self._table.client_limit
            keys = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
            limits = ClientLimits(*(limit(key, user, client_id) for key in keys))
            if len(client_id) <= CLIENT_ID_KEPT_MAX:
                if len(self._resolved) >= CLIENTS_MAX:
                    self._resolved.clear()
                self._resolved[user, client_id] = limits
        return limits

    def count_produced(self, user: str, client_id: str | None, size: int) -> int:
        """Count bytes of a Produce request; return for how many ms its client is held back."""
        limit = self.limits_of(user, client_id).produce
        if limit is None:
            return 0
        return self.held_back(PRODUCER_BYTE_RATE, self._count(PRODUCER_BYTE_RATE, limit, size))

    def count_time(self, user: str, client_id: str | None, seconds: float) -> int:
        """Count time that a request took; return for how many ms its client is held back, at most
        for one window.
        """
        limit = self.limits_of(user, client_id).request
        if limit is None:
            return 0
        excess_ms = min(self._windows.size_ms, self._count(REQUEST_PERCENTAGE, limit, seconds * 100))
        return self.held_back(REQUEST_PERCENTAGE, excess_ms)

    def held_back(self, quota: str, ms: int) -> int:
        """Count that a quota holds a client back for `ms`; return `ms`."""
        if ms:
            self.throttled_ms[quota] += ms
        return ms

    def fetch_bytes_max(self, user: str, client_id: str | None) -> int:
        """Return how many bytes one response may have, so that a client that was quiet gets it."""
        limit = self.limits_of(user, client_id).fetch
        if limit is None:
            return INT_MAX
        return max(1, min(INT_MAX, int(limit.bound * max(1, self._windows.number - 1) * self._windows.size_ms / 1000)))

    def count_fetched(self, user: str, client_id: str | None, size: int) -> int:
        """Count the bytes of a response to be sent. Returns 0, or for how many ms the client is
        held back: then the bytes are not to be sent, and not counted.

        What a client may have once in all windows is served if nothing was before, even if it is
        one batch above the quota: else the client would never get it.
        """
        limit = self.limits_of(user, client_id).fetch
        if limit is None or not size:
            return 0
        now_ms = self._clock.monotonic_ms()
        rate = self._rate(CONSUMER_BYTE_RATE, limit, now_ms)
        was_zero = rate.per_second(now_ms) <= 0
        rate.count(size, now_ms)
        excess_ms = rate.excess_ms(limit.bound, now_ms)
        if not excess_ms or was_zero:
            return 0
        rate.count(-size, now_ms)
        return self.held_back(CONSUMER_BYTE_RATE, excess_ms)

    def count_sent(self, user: str, client_id: str | None, size: int) -> int:
        """Count bytes of records that are sent in any case; return for how many ms the client is
        held back after it.
        """
        limit = self.limits_of(user, client_id).fetch
        if limit is None or not size:
            return 0
        return self.held_back(CONSUMER_BYTE_RATE, self._count(CONSUMER_BYTE_RATE, limit, size))

    def mutations(self, user: str, client_id: str | None, *, is_strict: bool) -> MutationQuota:
        """Return what counts the changed partitions of one request."""
        limit = self.limits_of(user, client_id).mutation if self.is_active else None
        if limit is None:
            return MutationQuota(None, is_strict=is_strict)
        bound, limiter = self._mutations.pop(limit.sharers, (0.0, None))
        if limiter is None:
            limiter = RateLimiter(limit.bound, self._clock, limit.bound * self._windows.mutation_s)
            if len(self._mutations) >= RATES_MAX:
                del self._mutations[next(iter(self._mutations))]
        elif bound != limit.bound:
            limiter.configure(limit.bound, limit.bound * self._windows.mutation_s)
        self._mutations[limit.sharers] = limit.bound, limiter
        return MutationQuota(limiter, is_strict=is_strict)

    def count_connection(self, address: str) -> int:
        """Count a new connection; return for how many ms its address may make none, at most one
        window: then it is not counted.
        """
        bound = self._table.address_limit(address)
        if bound is None:
            return 0
        now_ms = self._clock.monotonic_ms()
        rate = self._rate("", Limit(bound, (None, address)), now_ms)
        rate.count(1, now_ms)
        excess_ms = min(self._windows.size_ms, rate.excess_ms(bound, now_ms))
        if excess_ms:
            rate.count(-1, now_ms)
        return self.held_back(CONNECTION_CREATION_RATE, excess_ms)

    @property
    def rate_count(self) -> int:
        """The number of rates that are kept."""
        return len(self._rates) + len(self._mutations)

    def _count(self, key: str, limit: Limit, value: float) -> int:
        now_ms = self._clock.monotonic_ms()
        rate = self._rate(key, limit, now_ms)
        rate.count(value, now_ms)
        return rate.excess_ms(limit.bound, now_ms)

    def _rate(self, key: str, limit: Limit, now_ms: float) -> SampledRate:
        rates, kept_as = self._rates, (key, limit.sharers)
        rate = rates.pop(kept_as, None)
        if rate is None:
            rate = SampledRate(self._windows.number, self._windows.size_ms)
            for _ in range(2):  # two go for one that comes
                oldest = next(iter(rates), None)
                if oldest is not None and (len(rates) >= RATES_MAX or rates[oldest].is_zero(now_ms)):
                    del rates[oldest]
        rates[kept_as] = rate
        return rate


def changes_of(ops: Iterable[tuple[str, float | None]], entity: QuotaEntity) -> dict[str, float | None]:
    """Return the changes by name. Raises: InvalidRequest: a name is there twice."""
    changes: dict[str, float | None] = {}
    for key, value in ops:
        if key in changes:
            raise InvalidRequest(f"Duplicate quota key {key:.200} not updating quota for this entity {entity}")
        changes[key] = value
    return changes
