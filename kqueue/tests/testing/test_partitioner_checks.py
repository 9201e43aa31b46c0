"""The checker has to find what is wrong with a partitioner."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.testing import check_partitioner


def made(choose: Callable[..., Any]) -> Callable[[random.Random], Any]:
    """A factory of partitioners whose `partition` is `choose(rng, key, count, available)`."""

    class Partitioner:
        def __init__(self, rng: random.Random) -> None:
            self.rng = rng

        def partition(
            self, key: bytes | None, count: int, *, available: Any = None, value: Any = None, topic: str = ""
        ) -> Any:
            return choose(self.rng, key, count, available)

    return Partitioner


def test_good_ones_pass() -> None:
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
    "gives one of the topic.s partitions.*: partition 3 is not one of": lambda rng, key, count, available: count,
    "is not one of 0": lambda rng, key, count, available: -1,
    "a partition is an int": lambda rng, key, count, available: 0.0,
    "the list of available": clear,
    "the same random numbers": lambda rng, key, count, available: random.SystemRandom().randrange(count),
}


@pytest.mark.parametrize(("words", "choose"), BROKEN.items(), ids=BROKEN.keys())
def test_what_is_broken_is_named(words: str, choose: Callable[..., Any]) -> None:
    with pytest.raises(
        AssertionError, match=f"(?s)^partitioner '.*Partitioner' .* does not keep its promise \".*{words}"
    ):
        check_partitioner(made(choose), isolated=False)


class ByHash:
    """Its keys lie elsewhere in each process."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(
        self, key: bytes | None, count: int, *, available: Any = None, value: Any = None, topic: str = ""
    ) -> int:
        return hash(key) % count


def test_one_that_leans_on_the_hashes_of_its_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "5")  # as some test runners set it: that must not hide it
    with pytest.raises(
        AssertionError,
        match=r"from one process to the next.*: key b'\d+' of 97 went to \d+ in one process, and to \d+ in",
    ):
        check_partitioner(ByHash, keyed=True)
    check_partitioner(ByHash)


class ByTopic:
    """Can do nothing without a topic's name."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(
        self, key: bytes | None, count: int, *, available: Any = None, value: Any = None, topic: str = ""
    ) -> int:
        return len(topic) // len(topic) - 1


def test_one_that_stock_clients_cant_use_is_named() -> None:
    with pytest.raises(
        AssertionError, match=r'"stock clients can use it": as a client.s partitioner, \(.*\) raised ZeroDivisionError'
    ):
        check_partitioner(ByTopic, isolated=False)


def test_a_factory_that_makes_none_is_named() -> None:
    with pytest.raises(AssertionError, match=r"partitioner 'int' .*called with a random.Random, raised TypeError"):
        check_partitioner(int)  # type: ignore[arg-type]
    with pytest.raises(
        AssertionError, match=r"partitioner 'id' .*called with a random.Random, gave \d+, which has no partition\(\)"
    ):
        check_partitioner(id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "choose",
    [
        lambda rng, key, count, available: rng.randrange(count),
        lambda rng, key, count, available: available[0] if available else zlib.crc32(key or b"") % count,
    ],
    ids=["random", "looks at what is available"],
)
def test_a_key_that_moves_is_found(choose: Callable[..., Any]) -> None:
    check_partitioner(made(choose), isolated=False)
    with pytest.raises(AssertionError, match=r"key .* went to"):
        check_partitioner(made(choose), keyed=True, isolated=False)
