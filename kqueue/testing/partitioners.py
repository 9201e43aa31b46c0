"""The public checker of partitioners: whoever writes one runs it in his tests."""

from __future__ import annotations

import random

from kqueue.records.partitioners.clients import ClientPartitioner
from kqueue.records.partitioners.contract import Partitioner, PartitionerFactory

_COUNTS = (1, 2, 3, 7, 100, 1000)


def check_partitioner(factory: PartitionerFactory, *, seed: int = 1, keyed: bool = False) -> None:
    """Check that what `factory` makes keeps the contract in `kqueue.records.partitioners.contract`.

    Args: factory: the class, as it is registered: called with a `random.Random`. keyed: it promises that a key goes to the same
        partition always, whatever is available and whoever made it.
    Raises AssertionError: says which promise was broken, and with what.
    """
    rng = random.Random(seed)
    records = [_record(rng) for _ in range(500)]
    first, second = factory(random.Random(seed)), factory(random.Random(seed))
    for key, value, count, available in records:
        place = _ask(first, key, value, count, available)
        again = _ask(second, key, value, count, available)
        assert place == again, f"the same records and the same random numbers gave {place} and {again} for key {key!r} of {count}"
    if keyed:
        _check_keyed(factory, seed)
    _check_clients(factory(random.Random(seed)), records)


def _record(rng: random.Random) -> tuple[bytes | None, bytes | None, int, list[int] | None]:
    key = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 40))))
    value = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 4000))))
    count = rng.choice(_COUNTS)
    available = rng.choice((None, [], rng.sample(range(count), rng.randint(1, count))))
    return key, value, count, available


def _ask(partitioner: Partitioner, key: bytes | None, value: bytes | None, count: int, available: list[int] | None) -> int:
    given = None if available is None else list(available)
    place = partitioner.partition(key, count, available=given, value=value, topic="t")
    assert type(place) is int, f"a partition is an int, found {place!r} for key {key!r} of {count}"
    assert 0 <= place < count, f"partition {place} for key {key!r} is not one of 0..{count - 1}"
    assert given == available, f"the list of available partitions was changed from {available} to {given}"
    return place


def _check_keyed(factory: PartitionerFactory, seed: int) -> None:
    rng = random.Random(seed)
    ours, theirs = factory(random.Random(seed)), factory(random.Random(seed + 1))
    for _ in range(100):
        key, count = rng.randbytes(rng.randrange(1, 40)), rng.choice(_COUNTS)
        place = _ask(ours, key, None, count, None)
        for partitioner, available in ((ours, [place - 1] if place else None), (theirs, None), (ours, None)):
            found = _ask(partitioner, key, b"x" * 100, count, available)
            assert found == place, f"key {key!r} of {count} went to {place}, then to {found}"


def _check_clients(partitioner: Partitioner, records: list[tuple[bytes | None, bytes | None, int, list[int] | None]]) -> None:
    client = ClientPartitioner(partitioner)
    for key, _, count, available in records:
        place = client(key, range(count), available)
        assert place in range(count), f"as a client's partitioner it gave {place} for key {key!r} of {count}"
