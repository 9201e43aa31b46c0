from __future__ import annotations

import random
from typing import Any

import pytest

from kqueue.base.errors import PluginError
from kqueue.records.partitioners import PARTITIONERS, as_client_partitioner, make_partitioner
from kqueue.records.partitioners.sticky import StickyPartitioner
from kqueue.tests.plugged import BeyondPartition, LastPartition
from kqueue.tests.tables import for_each


def returning(result: Any) -> type[LastPartition]:
    class Returning(LastPartition):
        def partition(self, key: bytes | None, count: int, **_: object) -> int:
            partition_number: int = result
            return partition_number

    return Returning


def test_partitioner_that_keeps_the_contract_is_used_as_it_is() -> None:
    with PARTITIONERS.added("last", LastPartition, "a test"):
        assert make_partitioner("last").partition(b"key", 7) == 6
        assert as_client_partitioner("last")(b"key", [0, 1, 2], None) == 2


@for_each("result", [-1, 7, None, "1", 1.0, True])
def test_invalid_partition_names_the_plugin(result: object) -> None:
    with PARTITIONERS.added("odd", returning(result), "some-plugin 2.1"):
        words = (
            f"partitioner 'odd' of some-plugin 2.1 broke its contract: partition returned {result!r}, "
            "expected an int from 0 to 6"
        )
        with pytest.raises(PluginError, match=words):
            make_partitioner("odd").partition(b"key", 7)
        with pytest.raises(PluginError, match="partitioner 'odd' of some-plugin 2.1"):
            as_client_partitioner("odd")(b"key", range(7), None)


def test_exception_names_the_plugin() -> None:
    class Raising(LastPartition):
        def partition(self, key: bytes | None, count: int, **_: object) -> int:
            return count // 0

    with (
        PARTITIONERS.added("odd", Raising, "some-plugin 2.1"),
        pytest.raises(PluginError, match="'odd' of some-plugin 2.1 could not place a record: ZeroDivisionError"),
    ):
        make_partitioner("odd").partition(None, 7)


def test_factory_without_a_partitioner_is_refused() -> None:
    with (
        PARTITIONERS.added("odd", lambda rng: rng, "a test"),  # type: ignore[arg-type,return-value]
        pytest.raises(PluginError, match="expected a partitioner, found Random without the method partition"),
    ):
        make_partitioner("odd")
    with (
        PARTITIONERS.added("odd", lambda: None, "a test"),
        pytest.raises(PluginError, match="could not be made: TypeError"),
    ):  # type: ignore[arg-type]
        make_partitioner("odd")
    with (
        pytest.raises(PluginError, match="expected a class, or a callable"),
        PARTITIONERS.added("odd", "text", "a test"),
    ):  # type: ignore[arg-type]
        pass


def test_sticky_partitioner_is_notified_of_new_batches() -> None:
    class Sticky(StickyPartitioner):
        pass

    with PARTITIONERS.added("sticking", Sticky, "a test"), PARTITIONERS.added("last", LastPartition, "a test"):
        client = as_client_partitioner("sticking", random.Random(1))
        first = client(None, range(50), None)
        assert client(None, range(50), None) == first
        client.on_new_batch("", None, first)
        assert client(None, range(50), None) != first
        as_client_partitioner("last").on_new_batch("", None, 0)  # it has no such method, and needs none


def test_a_path_is_taken_in_the_users_own_words_alone() -> None:
    path = f"{LastPartition.__module__}:BeyondPartition"
    with pytest.raises(PluginError, match=f"partitioner '{path}' of {path} broke its contract"):
        as_client_partitioner(path)(b"key", [0, 1, 2], None)
    with pytest.raises(PluginError, match="no partitioner is called"):
        make_partitioner(path)
    assert BeyondPartition(random.Random()).partition(b"key", 3) == 3
