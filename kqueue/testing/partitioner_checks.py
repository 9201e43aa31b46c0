"""The public checker of partitioners: whoever writes one runs it in his tests."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import NamedTuple

from kqueue.records.partitioners.client_partitioner import ClientPartitioner
from kqueue.records.partitioners.contract import Partitioner, PartitionerFactory
from kqueue.testing.contract_checks import Check, Checks, ContractTrial
from kqueue.testing.isolation import check_contract

_COUNTS = (1, 2, 3, 7, 100, 1000)
_FactoryTrial = ContractTrial[PartitionerFactory]


class _PartitionCall(NamedTuple):
    """What a partitioner is asked."""

    key: bytes | None
    value: bytes | None
    partitions: int
    available: list[int] | None

    def __str__(self) -> str:
        value = "None" if self.value is None else f"{len(self.value)} bytes"
        return f"partition(key={self.key!r}, count={self.partitions}, available={self.available!r:.100}, value={value})"


def check_partitioner(
    factory: PartitionerFactory | str,
    *,
    seed: int = 1,
    keyed: bool = False,
    time_limit_s: float = 60,
    isolated: bool = True,
) -> None:
    """Check that what `factory` makes keeps the contract in `kqueue.records.partitioners.contract`.

    Args: factory: the class, as it is registered: called with a `random.Random`; or its ``module:object`` path. seed: of the records and
        of that random. keyed: it promises that a key goes to the same partition always, whatever is available and whoever made it.
        time_limit_s: for all of it. isolated: False checks in this process, without a time limit: for what can't be pickled.
    Raises: AssertionError: says which promise was broken, and with what. TypeError: the factory can't be sent to another process.
    """
    with tempfile.TemporaryDirectory(prefix="kqueue-check-") as folder:
        options = {"seed": seed, "keyed": keyed, "places": str(Path(folder, "places"))}
        check_contract(PARTITIONER_CHECKS, factory, options, time_limit_s=time_limit_s, isolated=isolated)
        if keyed and isolated:
            check_contract(PROCESS_CHECKS, factory, options, time_limit_s=time_limit_s, isolated=True)


def _check_places(trial: _FactoryTrial) -> None:
    partitioner = _made(trial)
    for asked in _records(trial):
        _ask(trial, partitioner, asked)


def _check_sameness(trial: _FactoryTrial) -> None:
    first, second = _made(trial), _made(trial)
    for asked in _records(trial):
        place, again = _ask(trial, first, asked), _ask(trial, second, asked)
        assert place == again, f"the same records and the same random numbers gave {place} and {again} for {asked}"


def _check_keys(trial: _FactoryTrial) -> None:
    if not trial.options["keyed"]:
        return
    rng = random.Random(trial.options["seed"])
    ours, theirs = _made(trial), _made(trial, 1)
    for _ in range(100):
        key, count = rng.randbytes(rng.randrange(1, 40)), rng.choice(_COUNTS)
        place = _ask(trial, ours, _PartitionCall(key, None, count, None))
        for partitioner, available in ((ours, [place - 1] if place else None), (theirs, None), (ours, None)):
            asked = _PartitionCall(key, b"x" * 100, count, available)
            found = _ask(trial, partitioner, asked)
            assert found == place, f"key {key!r} of {count} went to {place}, then to {found}: {asked}"


def _check_processes(trial: _FactoryTrial) -> None:
    """The first process writes down where keys go, another one compares; their hashes of bytes
    differ.
    """
    if not trial.options["keyed"]:
        return
    partitioner = _made(trial)
    keys = [b"%d" % number for number in range(100)]
    places = [_ask(trial, partitioner, _PartitionCall(key, None, 97, None)) for key in keys]
    file = Path(trial.options["places"])
    if not file.exists():
        file.write_text(json.dumps(places))
    for key, place, before in zip(keys, places, json.loads(file.read_text()), strict=True):
        assert place == before, f"key {key!r} of 97 went to {before} in one process, and to {place} in another"


def _check_clients(trial: _FactoryTrial) -> None:
    client = ClientPartitioner(_made(trial))
    for key, _, count, available in _records(trial):
        what = f"as a client's partitioner, ({key!r}, {count} partitions, {available!r:.100})"
        place = trial.ask(what, lambda key=key, count=count, available=available: client(key, range(count), available))  # type: ignore[misc]
        assert place in range(count), f"{what} gave {place}"


def _made(trial: _FactoryTrial, more: int = 0) -> Partitioner:
    what = "the factory, called with a random.Random,"
    made = trial.ask(what, lambda: trial.plugin(random.Random(trial.options["seed"] + more)))
    assert callable(getattr(made, "partition", None)), f"{what} gave {made!r:.200}, which has no partition()"
    return made


def _ask(trial: _FactoryTrial, partitioner: Partitioner, asked: _PartitionCall) -> int:
    key, value, count, available = asked
    given = None if available is None else list(available)
    place = trial.ask(str(asked), lambda: partitioner.partition(key, count, available=given, value=value, topic="t"))
    assert type(place) is int, f"a partition is an int, found {place!r} of {asked}"
    assert 0 <= place < count, f"partition {place} is not one of 0..{count - 1}: {asked}"
    assert given == available, f"the list of available partitions was changed from {available} to {given}"
    return place


def _records(trial: _FactoryTrial) -> list[_PartitionCall]:
    rng = random.Random(trial.options["seed"])
    return [_record(rng) for _ in range(500)]


def _record(rng: random.Random) -> _PartitionCall:
    key = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 40))))
    value = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 4000))))
    count = rng.choice(_COUNTS)
    available = rng.choice((None, [], rng.sample(range(count), rng.randint(1, count))))
    return _PartitionCall(key, value, count, available)


_PROCESSES = Check("a key keeps its partition from one process to the next (keyed=True)", _check_processes)
PROCESS_CHECKS = Checks("partitioner", (_PROCESSES,))
PARTITIONER_CHECKS = Checks(
    "partitioner",
    (
        Check("it gives one of the topic's partitions", _check_places),
        Check("the same records and random numbers give the same partitions", _check_sameness),
        Check("a key keeps its partition (keyed=True)", _check_keys),
        _PROCESSES,
        Check("stock clients can use it", _check_clients),
    ),
)
