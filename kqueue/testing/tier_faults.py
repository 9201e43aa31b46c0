"""A tier store that fails on purpose: for tests of what uses a store, and of crashes at each step.

store = FaultyTierStore(MemoryTierStore(), seed=1)
store.fail(unavailable("put_if"), times=2)         # the next two
store.fail(lost_answer("put", "*/manifest.json"))  # it takes place, and raises
store.before = crash_at(3)                         # the third call raises Crash
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from kqueue.tier.errors import ObjectNotFound, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores.contract import Buffer, Object, ObjectEntry, TierStore, Version, check_prefix

T = TypeVar("T")
Hook = Callable[[str, str], None]
"""Called with the operation (`put`, `put_if`, ...) and the key or prefix; may raise."""
OPERATIONS = ("put", "put_if", "get", "get_range", "list", "list_folders", "delete")


class Crash(BaseException):
    """The end of a process; no `Exception`, so that code under test does not handle it."""


class TierCall(NamedTuple):
    """One call of a store. `key`: the key, the first of several, or the prefix."""

    operation: str
    key: str


@dataclass(frozen=True)
class TierFault:
    """A fault of calls that match.

    Attributes:
        operation: a name of OPERATIONS, or a pattern as `put*`.
        key: a pattern of keys, in which `*` stands for any text.
        before: raises the error of a call that did not take place; None: it takes place.
        after: raises the error of a call that took place; None: its result is returned.
        cut: bytes are taken from the end of what `get_range` and `get` return.
    """

    operation: str = "*"
    key: str = "*"
    before: Callable[[TierCall], object] | None = None
    after: Callable[[TierCall], object] | None = None
    cut: bool = False

    def matches(self, call: TierCall) -> bool:
        """Return whether it is a fault of this call."""
        return fnmatchcase(call.operation, self.operation) and fnmatchcase(call.key, self.key)


def unavailable(operation: str = "*", key: str = "*") -> TierFault:
    """Return the fault of a server that answers 503: the call does not take place."""
    return TierFault(operation, key, before=_raising(TierUnavailable, "503 SlowDown"))


def lost_answer(operation: str = "put*", key: str = "*") -> TierFault:
    """Return the fault of a call that takes place, and raises TierUnavailable."""
    return TierFault(operation, key, after=_raising(TierUnavailable, "the connection broke before the answer"))


def expired(operation: str = "*", key: str = "*") -> TierFault:
    """Return the fault of credentials that have expired."""
    return TierFault(operation, key, before=_raising(TierDenied, "400 ExpiredToken"))


def missing(operation: str = "get*", key: str = "*") -> TierFault:
    """Return the fault of an object that somebody else has deleted."""
    return TierFault(operation, key, before=_raising(ObjectNotFound, "does not exist"))


def truncated(key: str = "*", operation: str = "get*") -> TierFault:
    """Return the fault of a store that returns fewer bytes than it has, against its contract."""
    return TierFault(operation, key, cut=True)


def slow(wait: Callable[[], object], operation: str = "*", key: str = "*") -> TierFault:
    """Return the fault of a slow store: `wait` is called first, e.g. `clock.advance` or an event's
    `wait`.
    """
    return TierFault(operation, key, before=lambda call: wait())


def crash_at(number: int) -> Hook:
    """Return a hook that raises `Crash` at the call of this number, from 1, and at all after it."""
    seen = 0
    lock = threading.Lock()

    def hook(operation: str, key: str) -> None:
        nonlocal seen
        with lock:
            seen += 1
            if seen >= number:
                raise Crash(f"call {number}: {operation} {key}")

    return hook


class FaultyTierStore:
    """See `contract.TierStore`. The same seed and calls give the same faults.

    Attributes:
        calls: what was called, in order, failed calls too.
        before, after: hooks of every call, e.g. `crash_at`. `after` is called when the call took
            place: a crash there loses the answer.

    Args: seed: of the lengths of truncated results, and of faults with a probability.
    Thread: any.
    """

    def __init__(self, inner: TierStore, *, seed: int = 0) -> None:
        self.inner = inner
        self.location = inner.location
        self.calls: list[TierCall] = []
        self.before: Hook = _no_hook
        self.after: Hook = _no_hook
        self._rng = random.Random(seed)
        self._lock = threading.Lock()
        self._faults: list[_Installed] = []
        self._stale: list[ObjectEntry] | None = None

    def fail(self, fault: TierFault, *, times: int | None = None, probability: float = 1.0) -> None:
        """Add a fault. Of several that match a call the one that was added first is used.

        Args:
            times: it is used so often; None: until `mend`.
            probability: that a matching call has it.
        """
        with self._lock:
            self._faults.append(_Installed(fault, times, probability))

    def mend(self) -> None:
        """Remove all faults and hooks, and show lists as they are."""
        with self._lock:
            self._faults.clear()
        self.before = self.after = _no_hook
        self._stale = None

    def freeze_lists(self) -> None:
        """Show lists and folders as they are now until `mend`, as if the store lagged behind."""
        self._stale = list(self.inner.list(""))

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        self._call("put", key, lambda: self.inner.put(key, parts, size))

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        return self._call("put_if", key, lambda: self.inner.put_if(key, body, expected))

    def get(self, key: str, *, max_bytes: int) -> Object:
        def shorter(found: Object) -> Object:
            return Object(found.body[: self._shorter(len(found.body))], found.version)

        return self._call("get", key, lambda: self.inner.get(key, max_bytes=max_bytes), shorter)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        def shorter(data: bytes) -> bytes:
            return data[: self._shorter(len(data))]

        return self._call("get_range", key, lambda: self.inner.get_range(key, start, length), shorter)

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        folder = check_prefix(prefix)

        def entries() -> Iterator[ObjectEntry]:
            stale = self._stale
            if stale is None:
                return self.inner.list(prefix)
            return (entry for entry in stale if entry.key.startswith(folder))

        return self._call("list", prefix, entries)

    def list_folders(self, prefix: str) -> Sequence[str]:
        folder = check_prefix(prefix)

        def names() -> Sequence[str]:
            stale = self._stale
            if stale is None:
                return self.inner.list_folders(prefix)
            below = (entry.key[len(folder) :] for entry in stale if entry.key.startswith(folder))
            return sorted({key.partition("/")[0] for key in below if "/" in key})

        return self._call("list_folders", prefix, names)

    def delete(self, keys: Sequence[str]) -> None:
        self._call("delete", keys[0] if keys else "", lambda: self.inner.delete(keys))

    def close(self) -> None:
        self.inner.close()

    def _call(self, operation: str, key: str, run: Callable[[], T], cut: Callable[[T], T] = lambda result: result) -> T:
        call = TierCall(operation, key)
        fault = self._begin(call)
        self.before(operation, key)
        if fault.before is not None:
            fault.before(call)
        result = run()
        self.after(operation, key)
        if fault.after is not None:
            fault.after(call)
        return cut(result) if fault.cut and cut is not None else result

    def _begin(self, call: TierCall) -> TierFault:
        with self._lock:
            self.calls.append(call)
            for installed in self._faults:
                if installed.fault.matches(call) and installed.is_due(self._rng):
                    return installed.fault
        return TierFault()

    def _shorter(self, size: int) -> int:
        with self._lock:
            return self._rng.randrange(size) if size else 0


class _Installed:
    """A fault, and how often it is used."""

    def __init__(self, fault: TierFault, times: int | None, probability: float) -> None:
        self.fault = fault
        self._rest = times
        self._probability = probability

    def is_due(self, rng: random.Random) -> bool:
        """Return whether the next call has it, and count that."""
        if self._rest == 0 or rng.random() >= self._probability:
            return False
        if self._rest is not None:
            self._rest -= 1
        return True


def _raising(kind: type[TierError], text: str) -> Callable[[TierCall], object]:
    def fail(call: TierCall) -> object:
        raise kind(f"{call.key}: {call.operation}: {text}")

    return fail


def _no_hook(operation: str, key: str) -> None:
    pass
