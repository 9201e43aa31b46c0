"""Placement of replicas on brokers, and checks of placements that clients give.

Partition `i` leads on broker `(start + i) mod n`; its other replicas follow, with a shift that
grows each time all brokers have led once. Brokers are ordered so that racks alternate; a replica
goes to a rack with the fewest replicas of its partition. Unfenced brokers come first: a
fenced one gets a replica only where the factor is larger than their number, and never leads.
Source: SPEC S6.2, Kafka's AdminUtils and StripedReplicaPlacer.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest

from kqueue.base.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from kqueue.base.text import counted
from kqueue.replication.registrations import BrokerRegistration, PartitionRegistration

Brokers = Mapping[int, BrokerRegistration]
FACTOR_MAX = 2**15 - 1


def place_replicas(
    brokers: Brokers, partitions: int, factor: int, rng: random.Random, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Return the replicas of `partitions` new partitions; the first one is preferred as leader.

    Args:
        factor: replicas of each partition, from 1.
        rng: draws where the first partition starts, so that not every topic begins at one broker.
        first_partition: index of the first one, where a topic grows.
    Raises:
        InvalidReplicationFactor: fewer brokers than `factor`, or all of them are fenced.
    """
    if not 1 <= factor <= FACTOR_MAX:
        raise InvalidReplicationFactor(f"the replication factor is {factor}; expected a number from 1 to {FACTOR_MAX}")
    if factor > len(brokers):
        raise InvalidReplicationFactor(
            f"the replication factor {factor} can't be reached: the cluster has {counted(len(brokers), 'broker')}"
        )
    active = sorted(node for node, broker in brokers.items() if broker.is_active)
    rest = sorted(brokers.keys() - set(active))
    if not active:
        raise InvalidReplicationFactor(f"all brokers are fenced or shut down: {_list(rest)}")
    racks = {node: broker.rack for node, broker in brokers.items()}
    own = min(factor, len(active))
    placed = _stripe(active, racks, range(first_partition, first_partition + partitions), own, rng)
    if factor > own:
        more = _stripe(rest, racks, range(first_partition, first_partition + partitions), factor - own, rng)
        placed = [replicas + fenced for replicas, fenced in zip(placed, more, strict=True)]
    return placed


def alternate_racks(nodes: Iterable[int], racks: Mapping[int, str | None]) -> list[int]:
    """Return the nodes, sorted within their rack, one of each rack in turn. None is a rack, too."""
    by_rack: dict[str | None, list[int]] = defaultdict(list)
    for node in sorted(nodes):
        by_rack[racks.get(node)].append(node)
    columns = [by_rack[rack] for rack in sorted(by_rack, key=lambda rack: (rack is not None, rack or ""))]
    return [node for node in chain.from_iterable(zip_longest(*columns)) if node is not None]


def check_replicas(replicas: Sequence[int], brokers: Brokers) -> None:
    """Check the replicas that a client gives for one partition.

    Raises: InvalidReplicaAssignment: none, one twice, or a broker that is not registered.
    """
    if not replicas:
        raise InvalidReplicaAssignment("the list of replicas is empty")
    for node, times in Counter(replicas).items():
        if node not in brokers:
            known = _list(sorted(brokers)) or "none"
            raise InvalidReplicaAssignment(f"broker {node} is not registered; registered brokers: {known}")
        if times > 1:
            raise InvalidReplicaAssignment(f"broker {node} is named more than once in a list of replicas")


def check_assignment(assignment: Sequence[Sequence[int]], brokers: Brokers, factor: int | None = None) -> None:
    """Check the replicas that a client gives for several partitions of a topic.

    Args: factor: of the topic's present partitions; None: it has none yet.
    Raises: InvalidReplicaAssignment: as `check_replicas`, or their numbers differ.
    """
    for index, replicas in enumerate(assignment):
        check_replicas(replicas, brokers)
        if factor is None:
            factor = len(replicas)
        if len(replicas) != factor:
            raise InvalidReplicaAssignment(
                f"list {index} has {len(replicas)} replicas, others of the topic have {factor}"
            )


def new_partition(replicas: Sequence[int], brokers: Brokers) -> PartitionRegistration:
    """Return a partition without records. Active brokers are its in-sync set; the first one leads.

    Raises: InvalidReplicaAssignment: none of them is active.
    """
    isr = tuple(node for node in replicas if brokers[node].is_active)
    if not isr:
        raise InvalidReplicaAssignment(f"all brokers of the list are fenced or shut down: {_list(replicas)}")
    return PartitionRegistration(tuple(replicas), isr, isr[0])


def _stripe(
    nodes: Sequence[int], racks: Mapping[int, str | None], indexes: range, factor: int, rng: random.Random
) -> list[tuple[int, ...]]:
    order = alternate_racks(nodes, racks)
    sizes = Counter(racks.get(node) for node in order)
    start, shift = rng.randrange(len(order)), rng.randrange(len(order))
    placed = []
    for index in indexes:
        first = (start + index) % len(order)
        # per round one step; over several racks one round of racks, so that racks still alternate
        turn = (shift + index // len(order)) * len(sizes)
        placed.append(_replicas_of(order, racks, sizes, first, turn, factor))
    return placed


def _replicas_of(
    order: Sequence[int],
    racks: Mapping[int, str | None],
    sizes: Mapping[str | None, int],
    first: int,
    turn: int,
    factor: int,
) -> tuple[int, ...]:
    """Walk the other brokers from `turn` on; take those whose rack has the fewest replicas yet."""
    others = len(order) - 1
    replicas = [order[first]]
    used: Counter[str | None] = Counter([racks.get(order[first])])
    limit, step = 0, 0  # racks with more than `limit` replicas are passed over
    while len(replicas) < factor:
        if all(used[rack] > limit or used[rack] == size for rack, size in sizes.items()):
            limit += 1
            continue
        node = order[(first + 1 + (turn + step) % others) % len(order)]
        step += 1
        rack = racks.get(node)
        if used[rack] <= limit and node not in replicas:
            replicas.append(node)
            used[rack] += 1
    return tuple(replicas)


def _list(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))
