"""`check_partitioner` reports each violation of the partitioner contract."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.testing import check_partitioner
from kqueue.tests.tables import for_each


def made(choose: Callable[..., Any]) -> Callable[[random.Random], Any]:
    """Return a factory of partitioners that call `choose(rng, key, count, available)`."""

    class Partitioner:
        def __init__(self, rng: random.Random) -> None:
            self.rng = rng

        def partition(
            self, key: bytes | None, count: int, *, available: Any = None, value: Any = None, topic: str = ""
        ) -> Any:
            return choose(self.rng, key, count, available)

    return Partitioner


def test_valid_partitioners_pass() -> None:
    check_partitioner(made(lambda rng, key, count, available: rng.randrange(count)), isolated=False)
    check_partitioner(
        made(lambda rng, key, count, available: zlib.crc32(key or b"") % count), keyed=True, isolated=False
    )


def clear(rng: random.Random, key: bytes | None, count: int, available: list[int] | None) -> int:
    if available:
        available.clear()
    return 0


def refuse(rng: random.Random, key: bytes | None, count: int, available: list[int] | None) -> int:
    if count == 7 and key is None:
        raise LookupError("no key")
    return 0


BROKEN = {
    r"partition\(key=None, count=7, available=.*, value=.*\) raised LookupError: no key": refuse,
    "returns a partition of the topic.*: partition 3 is not in": lambda rng, key, count, available: count,
    "is not in 0": lambda rng, key, count, available: -1,
    "partition must be an int": lambda rng, key, count, available: 0.0,
    "the list of available": clear,
    "the same random numbers": lambda rng, key, count, available: random.SystemRandom().randrange(count),
}


@for_each("words, choose", BROKEN.items())
def test_violations_are_reported(words: str, choose: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match=f"(?s)^partitioner '.*Partitioner' .* fails the check \".*{words}"):
        check_partitioner(made(choose), isolated=False)


class ByHash:
    """Maps keys by Python's hash, which differs between processes."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(
        self, key: bytes | None, count: int, *, available: Any = None, value: Any = None, topic: str = ""
    ) -> int:
        return hash(key) % count


@pytest.mark.long
def test_a_partitioner_that_uses_python_hashes_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "5")  # some test runners set it; the check must still fail
    with pytest.raises(
        AssertionError,
        match=r"in every process.*: key b'\d+' of 97 partitions mapped to \d+ in one process, to \d+ in",
    ):
        check_partitioner(ByHash, keyed=True)
    check_partitioner(ByHash)


class ByTopic:
    """Fails without a topic name."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(
        self, key: bytes | None, count: int, *, available: Any = None, value: Any = None, topic: str = ""
    ) -> int:
        return len(topic) // len(topic) - 1


def test_a_partitioner_that_kafka_clients_cannot_use_is_reported() -> None:
    with pytest.raises(
        AssertionError, match=r'"Kafka clients can use it": as a client.s partitioner, \(.*\) raised ZeroDivisionError'
    ):
        check_partitioner(ByTopic, isolated=False)


def test_a_factory_without_partitioners_is_reported() -> None:
    with pytest.raises(AssertionError, match=r"partitioner 'int' .*called with a random.Random, raised TypeError"):
        check_partitioner(int)  # type: ignore[arg-type]
    with pytest.raises(
        AssertionError, match=r"partitioner 'id' .*called with a random.Random, gave \d+, which has no partition\(\)"
    ):
        check_partitioner(id)  # type: ignore[arg-type]


@for_each(
    "choose",
    [
        lambda rng, key, count, available: rng.randrange(count),
        lambda rng, key, count, available: available[0] if available else zlib.crc32(key or b"") % count,
    ],
)
def test_a_key_that_changes_its_partition_is_reported(choose: Callable[..., Any]) -> None:
    check_partitioner(made(choose), isolated=False)
    with pytest.raises(AssertionError, match=r"key .* mapped to"):
        check_partitioner(made(choose), keyed=True, isolated=False)
