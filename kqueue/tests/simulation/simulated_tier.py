"""The object store of a simulated cluster, and the faulty way of each broker's process to it.

A call is a request that arrives at the store after a while, where it takes effect, and an answer
that comes back later. Between them the broker and all others go on; a request under way arrives
though its process has ended. Calls wait in jobs (`job_threads`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from kqueue.tests.simulation.event_queue import EventQueue
from kqueue.tests.simulation.job_threads import JobThread, wait_until
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError, TierUnavailable
from kqueue.tier.stores.contract import Buffer, Object, ObjectEntry, Version, check_key, check_prefix, joined

T = TypeVar("T")
FAST_MS = 8.0
SLOW_MS = 90.0
SLOW = 0.05
HANG_MS = 2500.0
LATE_MS = 1500.0
"""A call that raised may take effect within this time."""
STALE_MS = 1500.0
"""A list shows the store as it was up to so long ago."""
PAGE_SIZE = 7


class StoredObject(NamedTuple):
    """An object. version: counts all puts of the store. put_ms: virtual time of its put."""

    body: bytes
    version: int
    put_ms: float


class StoreObserver:
    """Sees each change before it is made. Subclasses override what they need."""

    def will_put(self, key: str, body: bytes) -> None:
        """An object is about to be written."""

    def will_delete(self, key: str) -> None:
        """An object is about to be deleted, or was never there."""


class TierObjects:
    """The objects, as all brokers have them. `observer`: sees changes; its errors end the run.

    Attributes: deleted_ms: of keys, when a delete was executed last.
    """

    def __init__(self, queue: EventQueue) -> None:
        self.by_key: dict[str, StoredObject] = {}
        self.deleted_ms: dict[str, float] = {}
        self.observer = StoreObserver()
        self._queue = queue
        self._last_version = 0
        self._undo: list[tuple[float, str, StoredObject | None]] = []

    def put(self, key: str, body: bytes) -> str:
        """Write an object; return its version."""
        self.observer.will_put(key, body)
        self._undo.append((self._queue.now_ms, key, self.by_key.get(key)))
        self._last_version += 1
        self.by_key[key] = StoredObject(body, self._last_version, self._queue.now_ms)
        return str(self._last_version)

    def put_if(self, key: str, body: bytes, expected: Version | None) -> str:
        """Write an object if it has this version. Raises: ObjectChanged."""
        present = self.by_key.get(key)
        version = None if present is None else str(present.version)
        if version != expected:
            raise ObjectChanged(f"{key}: expected version {expected}, found {version}")
        return self.put(key, body)

    def get(self, key: str) -> StoredObject:
        """Return an object. Raises: ObjectNotFound."""
        present = self.by_key.get(key)
        if present is None:
            raise ObjectNotFound(f"{key} does not exist")
        return present

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        for key in keys:
            self.observer.will_delete(key)
            self.deleted_ms[key] = self._queue.now_ms
            if key in self.by_key:
                self._undo.append((self._queue.now_ms, key, self.by_key.pop(key)))

    def listed(self, prefix: str, age_ms: float = 0.0) -> Sequence[ObjectEntry]:
        """Return the objects below a prefix, as they were some time ago, in order."""
        shown: dict[str, StoredObject | None] = dict(self.by_key)
        for time_ms, key, before in reversed(self._undo):
            if not age_ms or time_ms <= self._queue.now_ms - age_ms:
                break
            shown[key] = before
        return [
            ObjectEntry(key, len(entry.body), int(entry.put_ms))
            for key, entry in sorted(shown.items())
            if entry is not None and key.startswith(prefix)
        ]


class TierFaults(NamedTuple):
    """How often calls fail, from 0 to 1.

    Attributes:
        failures: raise TierUnavailable: a third before it took effect, a third after, a third takes
            effect later.
        hangs: take up to HANG_MS.
        stale: lists show an earlier state.
        torn: bytes that are read are wrong, or end early.
    """

    failures: float = 0.0
    hangs: float = 0.0
    stale: float = 0.0
    torn: float = 0.0


class TierLink:
    """One process's way to the store. Implements `TierStore`, for jobs.

    Attributes:
        is_away: every call fails, before it took effect. is_slow: every call hangs.
        faults: see `TierFaults`.
    Args: note: gets a line for the trace.
    """

    location = "memory://simulation"

    def __init__(self, objects: TierObjects, rng: random.Random, queue: EventQueue, note: Callable[..., None]) -> None:
        self.is_away = self.is_slow = self._is_closed = False
        self.faults = TierFaults()
        self._objects = objects
        self._rng = rng
        self._queue = queue
        self._note = note

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        body = joined(parts, size)
        self._call("put", check_key(key), lambda: self._objects.put(key, body))

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        body = bytes(body)
        return self._call("put_if", check_key(key), lambda: self._objects.put_if(key, body, expected))

    def get(self, key: str, *, max_bytes: int) -> Object:
        found = self._call("get", check_key(key), lambda: self._objects.get(key))
        if len(found.body) > max_bytes:
            raise TierCorrupt(f"{key} has {len(found.body)} bytes, at most {max_bytes} were expected")
        return Object(self._torn(found.body), str(found.version))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        found = self._call("get_range", check_key(key), lambda: self._objects.get(key))
        if start + length > len(found.body):
            raise TierCorrupt(f"{key} has {len(found.body)} bytes, expected {length} from {start} on")
        if self._rng.random() < self.faults.torn / 2:
            raise TierCorrupt(f"{key}: the answer ended early")
        return self._torn(found.body[start : start + length])

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        return self._pages(check_prefix(prefix))

    def _pages(self, prefix: str) -> Iterator[ObjectEntry]:
        last = ""
        while True:
            entries = [entry for entry in self._listed("list", prefix) if entry.key > last]
            yield from entries[:PAGE_SIZE]
            if len(entries) <= PAGE_SIZE:
                return
            last = entries[PAGE_SIZE - 1].key

    def list_folders(self, prefix: str) -> Sequence[str]:
        prefix = check_prefix(prefix)
        names = [entry.key[len(prefix) :].partition("/") for entry in self._listed("list_folders", prefix)]
        return sorted({name for name, slash, _ in names if slash})

    def _listed(self, operation: str, prefix: str) -> Sequence[ObjectEntry]:
        age_ms = STALE_MS * self._rng.random() if self._rng.random() < self.faults.stale else 0.0
        return self._call(operation, prefix, lambda: self._objects.listed(prefix, age_ms))

    def delete(self, keys: Sequence[str]) -> None:
        keys = [check_key(key) for key in keys]
        if keys:
            self._call("delete", ",".join(keys), lambda: self._objects.delete(keys))

    def close(self) -> None:
        self._is_closed = True

    def sleep(self, seconds: float) -> None:
        """Wait for a retry."""
        self._until(self._queue.now_ms + seconds * 1000)

    def _until(self, time_ms: float) -> None:
        job = JobThread.current
        assert job is not None
        self._queue.at(time_ms, job.wake)
        wait_until(lambda: self._is_closed or self._queue.now_ms >= time_ms, lambda job: None)

    def _call(self, operation: str, key: str, run: Callable[[], T]) -> T:
        """Return what `run` returns, executed at a later time. Raises: TierError."""
        random, now_ms = self._rng.random, self._queue.now_ms
        if self._is_closed:
            raise TierError("the store is closed")
        hangs, is_slow = random() < self.faults.hangs or self.is_slow, random() < SLOW
        span_ms = HANG_MS if hangs else SLOW_MS if is_slow else FAST_MS
        arrives_ms = now_ms + random() * span_ms
        answered_ms = arrives_ms + random() * span_ms
        fails, how = random() < self.faults.failures, random()
        outcome: list[T | TierError] = []

        def arrive() -> None:
            try:
                outcome.append(run())
            except TierError as error:
                outcome.append(error)

        if self.is_away or (fails and how < 1 / 3):
            self._note("tier fails", operation, key)
            self._until(answered_ms)
            raise TierUnavailable(f"503 for {operation} of {key}")
        if fails and how >= 2 / 3:
            self._note("tier is late", operation, key)
            self._queue.at(answered_ms + random() * LATE_MS, arrive)
            self._until(arrives_ms)
            raise TierUnavailable(f"timeout of {operation} of {key}")
        self._queue.at(arrives_ms, arrive)
        self._until(answered_ms)
        if fails or not outcome:
            self._note("tier answer lost", operation, key)
            raise TierUnavailable(f"the connection broke before the answer of {operation} of {key}")
        result = outcome[0]
        self._note("tier", operation, key, result if isinstance(result, TierError) else "")
        if isinstance(result, TierError):
            raise result
        return result

    def _torn(self, data: bytes) -> bytes:
        """Return the bytes, or with some faults the last one is wrong: no checksum covers the first
        ones of a batch.
        """
        if not data or self._rng.random() >= self.faults.torn / 2:
            return data
        return data[:-1] + bytes([data[-1] ^ 4])
