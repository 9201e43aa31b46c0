"""`check_tier_store` reports each violation of the contract of object stores."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pytest

from kqueue.testing import check_tier_store
from kqueue.testing.tier_store_checks import TIER_STORE_CHECKS
from kqueue.tests.tables import for_each
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt
from kqueue.tier.stores.contract import Buffer, Object, ObjectEntry
from kqueue.tier.stores.memory import MemoryTierStore

URL = "memory://{name}"


class Broken(MemoryTierStore):
    """A valid store; subclasses break one rule each."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("memory://"))


class Cutting(Broken):
    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        super().put(key, [b"".join(parts)[:size]], size)


class Eager(Broken):
    """Writes an object before its parts are counted."""

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        super().put(key, [bytes(size)], size)
        super().put(key, parts, size)


class Keeping(Broken):
    """Keeps the caller's buffers, which may change."""

    kept: ClassVar[dict[tuple[int, str], Buffer]] = {}

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        taken = list(parts)
        super().put(key, taken, size)
        self.kept[id(self._objects), key] = taken[0] if len(taken) == 1 else b"".join(taken)

    def get(self, key: str, *, max_bytes: int) -> Object:
        body, version = super().get(key, max_bytes=max_bytes)
        return Object(bytes(self.kept.get((id(self._objects), key), body)), version)


class Blind(Broken):
    """Does not look at the expected version."""

    def put_if(self, key: str, body: bytes, expected: str | None) -> str:
        self.put(key, [body], len(body))
        return self.get(key, max_bytes=len(body)).version


class Racing(Broken):
    """Looks at the version, and writes later."""

    def put_if(self, key: str, body: bytes, expected: str | None) -> str:
        try:
            version: str | None = self.get(key, max_bytes=1 << 30).version
        except ObjectNotFound:
            version = None
        if version != expected:
            raise ObjectChanged(key)
        time.sleep(0.005)
        self.put(key, [body], len(body))
        return self.get(key, max_bytes=1 << 30).version


class Creating(Broken):
    """Takes a version for a missing object."""

    def put_if(self, key: str, body: bytes, expected: str | None) -> str:
        return super().put_if(key, body, expected if key in self._objects.by_key else None)


class Short(Broken):
    def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            return super().get_range(key, start, length)
        except TierCorrupt:
            return self.get(key, max_bytes=1 << 30).body[start : start + length]


class Shifted(Broken):
    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = super().get_range(key, start, length)
        return data[1:] + data[:1] if start else data


class Limitless(Broken):
    def get(self, key: str, *, max_bytes: int) -> Object:
        return super().get(key, max_bytes=1 << 40)


class Views(Broken):
    def get(self, key: str, *, max_bytes: int) -> Any:
        return super().get(key, max_bytes=max_bytes)._replace(body=memoryview(b""))  # type: ignore[arg-type]


class OnePage(Broken):
    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        return iter(list(super().list(prefix))[:1000])


class Unordered(Broken):
    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        return reversed(list(super().list(prefix)))


class Textual(Broken):
    """Compares prefixes as text, as object stores do without a delimiter."""

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        prefix = prefix.rstrip("/")
        return (entry for entry in super().list("") if entry.key.startswith(prefix))


class Flat(Broken):
    def list_folders(self, prefix: str) -> Sequence[str]:
        names = super().list_folders(prefix)
        return [*names, "b"] if prefix == "" and names else names


class Strict(Broken):
    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.get(key, max_bytes=1 << 30)
        super().delete(keys)


class Trusting(Broken):
    """Takes any key."""

    def get(self, key: str, *, max_bytes: int) -> Object:
        try:
            return super().get(key, max_bytes=max_bytes)
        except ValueError:
            raise ObjectNotFound(key) from None


class Alone(MemoryTierStore):
    """Shares its objects with no other store."""

    def __init__(self, url: str) -> None:
        super().__init__()


class Reopening(Broken):
    def _check_open(self) -> None:
        pass


class Dates(Broken):
    def list(self, prefix: str) -> Iterator[Any]:
        return (entry._replace(modified_ms=1.5) for entry in super().list(prefix))  # type: ignore[arg-type]


@for_each(
    "store, message",
    [
        (Cutting, "a put that fails writes nothing"),
        (Eager, "a put that fails writes nothing"),
        (Keeping, 'fails the check "what was put is what is got": get, after the caller changed'),
        (Blind, "put_if changes only the expected version"),
        (Creating, "put_if of a missing object, with a version,"),
        (Racing, "of several put_if with one version exactly one returns"),
        (Short, "which ends behind the object, gave"),
        (Shifted, "gave other bytes than were put"),
        (Limitless, "get of 100 bytes with max_bytes=99"),
        (Views, "gave a memoryview as body, expected bytes"),
        (OnePage, "list returns all objects below the prefix, in order"),
        (Dates, "gave 1.5 as time, expected milliseconds as an int"),
        (Flat, "list_folders returns the folders that have objects"),
        (Strict, "missing ones are no error"),
        (Trusting, "keys that lead elsewhere are refused"),
        (Alone, "no increment by get and put_if|exactly one returns|all objects below"),
        (Reopening, "a closed store raises TierError"),
        (Unordered, r"list\(''\) has the keys"),
        (Textual, "list returns all objects below the prefix, in order"),
    ],
)
def test_broken_store_is_reported_by_the_check_that_it_fails(store: Any, message: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kqueue.testing.cluster_store_probe.WAIT_LIMIT_S", 0.02)
        with pytest.raises(AssertionError) as failure:
            check_tier_store(store, URL, big_bytes=100_000, isolated=False)
    assert re.search(message, str(failure.value)), str(failure.value)


def test_checks_of_one_run_share_no_objects() -> None:
    with pytest.raises(ValueError, match="checks must not share objects"):
        check_tier_store(Broken, "memory://fixed", isolated=False)


def test_every_check_has_a_promise_of_its_own() -> None:
    promises = [check.promise for check in TIER_STORE_CHECKS.rows]
    assert len(set(promises)) == len(promises) > 10


@pytest.mark.long
def test_store_is_checked_in_a_process_of_its_own() -> None:
    check_tier_store("kqueue.tier.stores.address:open_store", URL)
