"""Public contract checks for partitioners, to be run in the tests of a partitioner plugin."""

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
    """The arguments of one call of `partition`."""

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
    """Check that partitioners of `factory` meet `kqueue.records.partitioners.contract`.

    Args:
        factory: the registered class, called with a `random.Random`; or its ``module:object`` path.
        seed: seeds the records and the partitioner's `random.Random`.
        keyed: also check that a key always maps to the same partition, in every instance and
            process and for every list of available partitions.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `factory` cannot be sent to another process.
    """
    with tempfile.TemporaryDirectory(prefix="kqueue-check-") as folder:
        options = {"seed": seed, "keyed": keyed, "partitions_file": str(Path(folder, "partitions"))}
        check_contract(PARTITIONER_CHECKS, factory, options, time_limit_s=time_limit_s, isolated=isolated)
        if keyed and isolated:
            check_contract(PROCESS_CHECKS, factory, options, time_limit_s=time_limit_s, isolated=True)


def _check_range(trial: _FactoryTrial) -> None:
    partitioner = _partitioner(trial)
    for call in _records(trial):
        _ask(trial, partitioner, call)


def _check_sameness(trial: _FactoryTrial) -> None:
    first, second = _partitioner(trial), _partitioner(trial)
    for call in _records(trial):
        partition, again = _ask(trial, first, call), _ask(trial, second, call)
        assert partition == again, (
            f"the same records and the same random numbers gave {partition} and {again} for {call}"
        )


def _check_keys(trial: _FactoryTrial) -> None:
    if not trial.options["keyed"]:
        return
    rng = random.Random(trial.options["seed"])
    ours, theirs = _partitioner(trial), _partitioner(trial, 1)
    for _ in range(100):
        key, count = rng.randbytes(rng.randrange(1, 40)), rng.choice(_COUNTS)
        expected = _ask(trial, ours, _PartitionCall(key, None, count, None))
        for partitioner, available in ((ours, [expected - 1] if expected else None), (theirs, None), (ours, None)):
            call = _PartitionCall(key, b"x" * 100, count, available)
            chosen = _ask(trial, partitioner, call)
            assert chosen == expected, (
                f"key {key!r} of {count} partitions mapped to {expected}, then to {chosen}: {call}"
            )


def _check_processes(trial: _FactoryTrial) -> None:
    """Compare the partitions of keys between two processes with different hash seeds.

    The first process writes the partitions to a file, the second one compares.
    """
    if not trial.options["keyed"]:
        return
    partitioner = _partitioner(trial)
    keys = [b"%d" % number for number in range(100)]
    partitions = [_ask(trial, partitioner, _PartitionCall(key, None, 97, None)) for key in keys]
    file = Path(trial.options["partitions_file"])
    if not file.exists():
        file.write_text(json.dumps(partitions))
    for key, partition, before in zip(keys, partitions, json.loads(file.read_text()), strict=True):
        assert partition == before, (
            f"key {key!r} of 97 partitions mapped to {before} in one process, to {partition} in another"
        )


def _check_clients(trial: _FactoryTrial) -> None:
    client = ClientPartitioner(_partitioner(trial))
    for key, _, count, available in _records(trial):
        what = f"as a client's partitioner, ({key!r}, {count} partitions, {available!r:.100})"
        chosen = trial.ask(what, lambda key=key, count=count, available=available: client(key, range(count), available))  # type: ignore[misc]
        assert chosen in range(count), f"{what} gave {chosen}"


def _partitioner(trial: _FactoryTrial, more: int = 0) -> Partitioner:
    what = "the factory, called with a random.Random,"
    partitioner = trial.ask(what, lambda: trial.plugin(random.Random(trial.options["seed"] + more)))
    assert callable(getattr(partitioner, "partition", None)), (
        f"{what} gave {partitioner!r:.200}, which has no partition()"
    )
    return partitioner


def _ask(trial: _FactoryTrial, partitioner: Partitioner, call: _PartitionCall) -> int:
    key, value, count, available = call
    given = None if available is None else list(available)
    partition = trial.ask(str(call), lambda: partitioner.partition(key, count, available=given, value=value, topic="t"))
    assert type(partition) is int, f"partition must be an int, found {partition!r} for {call}"
    assert 0 <= partition < count, f"partition {partition} is not in 0..{count - 1}: {call}"
    assert given == available, f"the list of available partitions was changed from {available} to {given}"
    return partition


def _records(trial: _FactoryTrial) -> list[_PartitionCall]:
    rng = random.Random(trial.options["seed"])
    return [_record(rng) for _ in range(500)]


def _record(rng: random.Random) -> _PartitionCall:
    key = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 40))))
    value = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 4000))))
    count = rng.choice(_COUNTS)
    available = rng.choice((None, [], rng.sample(range(count), rng.randint(1, count))))
    return _PartitionCall(key, value, count, available)


_PROCESSES = Check("a key maps to the same partition in every process (keyed=True)", _check_processes)
PROCESS_CHECKS = Checks("partitioner", (_PROCESSES,))
PARTITIONER_CHECKS = Checks(
    "partitioner",
    (
        Check("it returns a partition of the topic", _check_range),
        Check("the same records and random numbers give the same partitions", _check_sameness),
        Check("a key always maps to the same partition (keyed=True)", _check_keys),
        _PROCESSES,
        Check("Kafka clients can use it", _check_clients),
    ),
)
