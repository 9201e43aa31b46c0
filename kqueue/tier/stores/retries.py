"""A store around another one that repeats failed calls, and stops calling a store that is away.

A call that raised TierUnavailable is repeated after a random delay below a bound that doubles each
time ("full jitter": clients that failed together do not come back together). A circuit breaker
counts the failures of all calls.

A put that failed may have taken place. `put` writes the same bytes again. `put_if` would be refused
by its own first attempt, so it reads the object before each further attempt: if the bytes are its
own, it has taken place.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from kqueue.base.clock import Clock
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError, TierUnavailable
from kqueue.tier.stores.circuit import CircuitBreaker
from kqueue.tier.stores.contract import Buffer, Object, ObjectEntry, TierStore, Version, check_key, check_prefix

T = TypeVar("T")
PAGE_SIZE = 1000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a call is repeated.

    Attributes:
        attempts_max: with the first one, at least 1.
        delay_ms: the longest first delay, in milliseconds; it doubles up to `delay_max_ms`.
        deadline_ms: no attempt begins so many milliseconds after the first one. A single attempt
            ends by the timeouts of the store itself.
        failures_max: so many failed attempts in a row, of all calls, open the circuit.
        open_ms: for so long an open circuit refuses calls, in milliseconds.
    """

    attempts_max: int = 5
    delay_ms: float = 200
    delay_max_ms: float = 10_000
    deadline_ms: float = 120_000
    failures_max: int = 10
    open_ms: float = 30_000


class RetryingStore:
    """See `contract.TierStore`. Raises TierUnavailable at once while the circuit is open.

    Attributes:
        circuit: its state is readable at any time.
        retries: how many attempts were not the first one of their call.

    Args:
        rng: of the delays.
        sleep: waits for so many seconds; None: waits in this thread, and `close` ends the wait.
    Thread: as the store inside. `close` ends the waits of other threads.
    """

    def __init__(
        self,
        inner: TierStore,
        policy: RetryPolicy,
        *,
        clock: Clock,
        rng: random.Random,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.location = inner.location
        self.circuit = CircuitBreaker(clock, failures_max=policy.failures_max, open_ms=policy.open_ms)
        self.retries = 0
        self._inner = inner
        self._policy = policy
        self._clock = clock
        self._rng = rng
        self._closing = threading.Event()
        self._sleep = self._closing.wait if sleep is None else sleep
        self._last_failure = ""

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        # A generator is used up by the first attempt.
        attempts_max = 1 if isinstance(parts, Iterator) else None
        self._call(key, lambda: self._inner.put(key, parts, size), attempts_max=attempts_max)

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        put = _ConditionalPut(self._inner, key, body, expected)
        return self._call(key, put.attempt)

    def get(self, key: str, *, max_bytes: int) -> Object:
        return self._call(key, lambda: self._inner.get(key, max_bytes=max_bytes))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call(key, lambda: self._inner.get_range(key, start, length))

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        check_prefix(prefix)
        self._check_open()
        return self._listed(_ResumedList(self._inner, prefix))

    def _listed(self, pages: _ResumedList) -> Iterator[ObjectEntry]:
        while page := self._call(pages.prefix, pages.next_page):
            yield from page

    def list_folders(self, prefix: str) -> Sequence[str]:
        return self._call(prefix, lambda: self._inner.list_folders(prefix))

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        self._call(keys[0] if keys else "", lambda: self._inner.delete(keys))

    def close(self) -> None:
        self._closing.set()
        self._inner.close()

    def _call(self, key: str, run: Callable[[], T], *, attempts_max: int | None = None) -> T:
        """Return what `run` returns, repeated as the policy says.

        Args: attempts_max: None: as the policy says.
        Raises: what `run` raises. TierUnavailable: the last attempt, or the circuit is open.
        """
        attempts_max = self._policy.attempts_max if attempts_max is None else attempts_max
        begin_ms = self._clock.monotonic_ms()
        attempt = 1
        while True:
            try:
                return self._attempt(key, run)
            except TierUnavailable:
                delay_ms = self._delay_ms(attempt)
                elapsed_ms = self._clock.monotonic_ms() - begin_ms
                if attempt >= attempts_max or elapsed_ms + delay_ms >= self._policy.deadline_ms:
                    raise
                self._sleep(delay_ms / 1000)
            attempt += 1
            self.retries += 1

    def _attempt(self, key: str, run: Callable[[], T]) -> T:
        self._check_open()
        if not self.circuit.begin():
            raise TierUnavailable(
                f"{self.location}/{key}: not tried: {self.circuit.failures} calls in a row have failed; the next one "
                f"is sent in {self.circuit.rest_ms() / 1000:.0f} s; the last failure: {self._last_failure}"
            )
        try:
            result = run()
        except TierUnavailable as error:
            self._last_failure = str(error)[:300]
            self.circuit.failed()
            raise
        except TierError:  # the store has answered
            self.circuit.succeeded()
            raise
        except BaseException:
            self.circuit.abandoned()
            raise
        self.circuit.succeeded()
        return result

    def _delay_ms(self, attempt: int) -> float:
        """Return the delay after the attempt of this number, from 1."""
        bound_ms = min(self._policy.delay_ms * 2.0 ** min(attempt - 1, 60), self._policy.delay_max_ms)
        return self._rng.uniform(0, bound_ms)

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise TierError(f"{self.location} is closed")


class _ConditionalPut:
    """One conditional put and its attempts."""

    def __init__(self, store: TierStore, key: str, body: bytes, expected: Version | None) -> None:
        self._store = store
        self._key = key
        self._body = body
        self._expected = expected
        self._may_have_taken_place = False

    def attempt(self) -> Version:
        """Return the version of the object once it is this put's. Raises: as `put_if`."""
        if self._may_have_taken_place and (version := self._own_version()) is not None:
            return version
        try:
            return self._store.put_if(self._key, self._body, self._expected)
        except TierUnavailable:
            self._may_have_taken_place = True
            raise
        except ObjectChanged:
            # An earlier attempt may have arrived at the store after its object was read.
            if self._may_have_taken_place and (version := self._own_version()) is not None:
                return version
            raise

    def _own_version(self) -> Version | None:
        """Return the version of the object if its bytes are this put's, else None."""
        try:
            found = self._store.get(self._key, max_bytes=len(self._body))
        except (ObjectNotFound, TierCorrupt):  # there is none, or a longer one
            return None
        return found.version if found.body == self._body else None


class _ResumedList:
    """The pages of a list that begins again behind the last entry when the store fails."""

    def __init__(self, store: TierStore, prefix: str) -> None:
        self.prefix = prefix
        self._store = store
        self._entries: Iterator[ObjectEntry] | None = None
        self._last_key = ""

    def next_page(self) -> Sequence[ObjectEntry]:
        """Return up to PAGE_SIZE entries; none: the list has ended."""
        try:
            if self._entries is None:
                self._entries = self._store.list(self.prefix)
            later = (entry for entry in self._entries if entry.key > self._last_key)
            page = list(islice(later, PAGE_SIZE))
        except BaseException:
            self._entries = None  # an iterator that has raised has ended
            raise
        if page:
            self._last_key = page[-1].key
        return page
