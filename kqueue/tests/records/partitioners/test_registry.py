from __future__ import annotations

import random

import pytest

from kqueue.base.errors import PluginError
from kqueue.records.partitioners import DEFAULT, PARTITIONERS, as_client_partitioner, make_partitioner
from kqueue.records.partitioners.murmur2 import Murmur2Partitioner
from kqueue.testing import check_partitioner
from kqueue.tests.tables import for_each

KEYED = {
    "murmur2": True,
    "sticky": False,
    "round_robin": False,
    "random": False,
    "crc32": True,
    "crc32_consistent": True,
}


@for_each("name", KEYED)
def test_built_in_partitioners_keep_the_contract(name: str) -> None:
    check_partitioner(PARTITIONERS.get(name), keyed=KEYED[name])


def test_the_built_in_names() -> None:
    assert {entry.name for entry in PARTITIONERS if entry.origin == "kqueue"} == set(KEYED)


def test_the_default_is_javas() -> None:
    assert DEFAULT == "murmur2"
    assert isinstance(make_partitioner(), Murmur2Partitioner)
    assert isinstance(as_client_partitioner().partitioner, Murmur2Partitioner)


def test_each_producer_gets_its_own() -> None:
    first, second = make_partitioner("round_robin"), make_partitioner("round_robin")
    assert [first.partition(None, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert second.partition(None, 3) == 0


def test_randomness_is_given() -> None:
    for name in ("random", "sticky"):
        one, other = (make_partitioner(name, random.Random(5)) for _ in range(2))
        assert [one.partition(None, 1000) for _ in range(100)] == [other.partition(None, 1000) for _ in range(100)]


def test_an_unknown_name() -> None:
    with pytest.raises(PluginError, match="did you mean 'murmur2'"):
        make_partitioner("murmur")
