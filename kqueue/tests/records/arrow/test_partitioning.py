"""Partitions of whole columns: what the partitioner itself says of each record, one after the
other.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.registry import BUILT_IN
from kqueue.records.arrow import crc32_of, murmur2_of, partitions_of
from kqueue.records.partitioners import PARTITIONERS, Partitioner, make_partitioner
from kqueue.records.partitioners.murmur2 import murmur2
from kqueue.tests.records.arrow.helpers import ENGINES, EngineName
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

pytestmark = pytest.mark.timeout(300)  # the first run compiles

NAMES = ("murmur2", "sticky", "round_robin", "random", "crc32", "crc32_consistent")
KEYS = st.lists(st.none() | st.binary(max_size=40) | st.text(max_size=9).map(str.encode), max_size=60)


def one_by_one(
    partitioner: Partitioner,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    count: int,
    available: Sequence[int] | None,
) -> list[int]:
    pairs = zip(keys, values, strict=True)
    return [partitioner.partition(key, count, available=available, value=value, topic="t") for key, value in pairs]


@for_each("engine", ENGINES)
@given(keys=KEYS, cut=st.integers(0, 5))
@settings(max_examples=examples(150), deadline=None)
def test_column_hashes_equal_those_of_single_keys(engine: EngineName, keys: list[bytes | None], cut: int) -> None:
    """Of slices too, with the column's bytes before them."""
    column = pa.array(keys, pa.binary()).slice(cut)
    assert murmur2_of(column, engine).tolist() == [murmur2(key or b"") for key in keys[cut:]]
    assert crc32_of(column, engine).tolist() == [zlib.crc32(key or b"") for key in keys[cut:]]


@for_each("engine", ENGINES)
@for_each("name", NAMES)
@given(
    pieces=st.lists(
        st.lists(
            st.tuples(st.none() | st.binary(max_size=12), st.none() | st.sampled_from([b"", bytes(5_000)])), max_size=30
        )
    ),
    count=st.integers(1, 9),
    seed=st.integers(0, 9),
    some=st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_places_are_those_of_the_partitioner_and_so_is_what_it_remembers(
    engine: EngineName,
    name: str,
    pieces: list[list[tuple[bytes | None, bytes | None]]],
    count: int,
    seed: int,
    some: bool,
) -> None:
    available = list(range(0, count, 2)) if some else None
    mine, its = (make_partitioner(name, random.Random(seed)) for _ in range(2))
    for piece in pieces:
        keys, values = [key for key, _ in piece], [value for _, value in piece]
        columns: dict[str, Any] = {"keys": pa.array(keys, pa.binary()), "values": pa.array(values, pa.binary())}
        partitions = partitions_of(mine, count, **columns, available=available, topic="t", engine=engine)
        assert partitions.tolist() == one_by_one(its, keys, values, count, available)


def test_every_built_in_is_among_those_that_are_compared() -> None:
    assert set(NAMES) == {entry.name for entry in PARTITIONERS if entry.origin == BUILT_IN}


@for_each("kind", [pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()])
def test_text_and_large_columns(kind: pa.DataType) -> None:
    keys = pa.array(["ä", "", None, "three"]).cast(kind)
    assert murmur2_of(keys, "python").tolist() == [murmur2(key) for key in ("ä".encode(), b"", b"", b"three")]


def test_columns_of_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="the column key is to be bytes or text, not int64"):
        partitions_of(make_partitioner("murmur2"), 3, keys=pa.array([1]), values=pa.array([b"x"]))


class Longest:
    """A plugin: asked for each record."""

    def partition(self, key: bytes | None, count: int, **more: Any) -> int:
        return len(key or b"") % count


def test_a_plugins_partitioner_is_asked_for_each_record() -> None:
    keys = pa.array([b"a", None, b"ccc"])
    assert partitions_of(Longest(), 7, keys=keys, values=keys).tolist() == [1, 0, 3]
