from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import InvalidReplicationFactor
from kqueue.replication.rebalancing import rebalance


def spread(counts: Counter[int], nodes: list[int]) -> int:
    return max(counts[node] for node in nodes) - min(counts[node] for node in nodes)


def placement(topics: int, partitions: int, nodes: list[int]) -> dict[tuple[str, int], tuple[int, ...]]:
    """Three replicas each, one broker further for each partition."""
    rows = [(f"t{topic}", index) for topic in range(topics) for index in range(partitions)]
    return {row: tuple(nodes[(start + one) % len(nodes)] for one in range(3)) for start, row in enumerate(rows)}


def moves(before: dict[tuple[str, int], tuple[int, ...]], after: dict[tuple[str, int], tuple[int, ...]]) -> int:
    return sum(len(set(after[key]) - set(before[key])) for key in before)


def test_an_even_placement_stays_as_it_is() -> None:
    before = placement(2, 6, [1, 2, 3])
    assert rebalance(dict.fromkeys([1, 2, 3]), before, {"t0": 3, "t1": 3}) == before


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    before = placement(2, 20, [1, 2, 3])
    after = rebalance(dict.fromkeys([1, 2, 3, 4]), before, {"t0": 3, "t1": 3})
    assert Counter(node for replicas in after.values() for node in replicas) == {1: 30, 2: 30, 3: 30, 4: 30}
    assert moves(before, after) == 30
    assert Counter(replicas[0] for replicas in after.values()) == {1: 10, 2: 10, 3: 10, 4: 10}


def test_retired_broker_moves_only_its_replicas() -> None:
    before = placement(2, 20, [1, 2, 3, 4])
    after = rebalance(dict.fromkeys([1, 2, 4]), before, {"t0": 3, "t1": 3})
    assert moves(before, after) == sum(3 in replicas for replicas in before.values())
    assert all(set(replicas) == {1, 2, 4} for replicas in after.values())


def test_a_replica_goes_to_another_rack() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    after = rebalance(racks, {("t", 0): (1,), ("t", 1): (3,)}, {"t": 2})
    assert all(len({racks[node] for node in replicas}) == 2 for replicas in after.values())


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(InvalidReplicationFactor, match="t: 3 replicas need as many brokers, and 2 are chosen"):
        rebalance({1: None, 2: None}, {("t", 0): (1,)}, {"t": 3})


@given(st.data())
def test_every_placement_becomes_even(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=6, unique=True), "nodes")
    factors = {f"t{number}": data.draw(st.integers(1, len(nodes))) for number in range(data.draw(st.integers(1, 3)))}
    replicas = st.lists(st.integers(1, 9), max_size=4, unique=True).map(tuple)
    before = {(topic, index): data.draw(replicas) for topic in factors for index in range(data.draw(st.integers(1, 6)))}
    after = rebalance(dict.fromkeys(nodes), before, factors)
    assert after.keys() == before.keys()
    for (topic, _), placed in after.items():
        assert len(placed) == len(set(placed)) == factors[topic]
        assert set(placed) <= set(nodes)
    for topic in factors:
        own = [placed for (name, _), placed in after.items() if name == topic]
        assert spread(Counter(node for placed in own for node in placed), nodes) <= 1
    assert rebalance(dict.fromkeys(nodes), after, factors) == after
