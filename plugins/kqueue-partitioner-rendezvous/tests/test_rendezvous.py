from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kqueue_partitioner_rendezvous import RendezvousPartitioner, rendezvous
from xxhash import xxh3_64_intdigest

from kqueue.records.partitioners import PARTITIONERS
from kqueue.testing.partitioner_checks import check_partitioner

KEYS = st.binary(max_size=300)


def test_rendezvous_partitioner_keeps_the_contract() -> None:
    check_partitioner(RendezvousPartitioner, keyed=True)


def test_rendezvous_partitioner_is_found_by_name() -> None:
    partitioner = PARTITIONERS.get("rendezvous")(random.Random(1))
    assert [partitioner.partition(b"key-%d" % number, 9) for number in range(50)] == [
        rendezvous(b"key-%d" % number, 9) for number in range(50)
    ]


@given(key=KEYS, count=st.integers(1, 200), added=st.integers(1, 200))
@settings(deadline=None)
def test_a_key_moves_only_to_an_added_partition(key: bytes, count: int, added: int) -> None:
    before, after = rendezvous(key, count), rendezvous(key, count + added)
    assert after == before or after >= count


@given(key=KEYS, count=st.integers(1, 60))
@settings(deadline=None)
def test_the_choice_is_the_formula_of_the_module(key: bytes, count: int) -> None:
    digest = xxh3_64_intdigest(key).to_bytes(8, "big")
    assert rendezvous(key, count) == max(
        range(count), key=lambda partition: (xxh3_64_intdigest(digest, partition), -partition)
    )


@pytest.mark.parametrize(
    ("key", "places"), [(b"", [0, 1, 2, 2]), (b"customer-17", [0, 1, 1, 1]), (b"k" * 500, [0, 0, 0, 0])]
)
def test_choices_never_change(key: bytes, places: list[int]) -> None:
    assert [rendezvous(key, count) for count in (1, 2, 3, 8)] == places


@given(salt=st.binary(min_size=4, max_size=8), count=st.integers(2, 24))
@settings(deadline=None)
def test_partitions_get_equal_shares_and_an_added_one_too(salt: bytes, count: int) -> None:
    keys = [salt + b"%d" % number for number in range(2000)]
    before = [rendezvous(key, count) for key in keys]
    moved = sum(rendezvous(key, count + 1) != place for key, place in zip(keys, before, strict=True))
    spread = 6 * (len(keys) / count) ** 0.5  # six standard deviations: one in 10^8 of fair hashes would fail
    assert all(abs(before.count(place) - len(keys) / count) < spread for place in range(count)), Counter(before)
    assert abs(moved - len(keys) / (count + 1)) < spread


def test_records_without_a_key_stick_and_then_move_on() -> None:
    partitioner = RendezvousPartitioner(random.Random(7))
    first = [partitioner.partition(None, 8, value=b"x" * 100, topic="t") for _ in range(20)]
    assert len(set(first)) == 1
    partitioner.new_batch("t")
    assert partitioner.partition(None, 8, value=b"x", topic="t") != first[0]
    assert partitioner.partition(None, 8, available=[3], topic="t") == 3
