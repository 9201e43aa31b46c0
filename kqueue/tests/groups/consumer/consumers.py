"""Helpers of the tests of consumer groups."""

from __future__ import annotations

from typing import Any

from kqueue.groups.consumer.member import Partitions
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.tests.groups.support import World

T = b"t".rjust(16, b"\1")
U = b"u".rjust(16, b"\1")


def indexes(assigned: Partitions | None, topic: bytes = T) -> set[int] | None:
    return None if assigned is None else set(assigned.get(topic, ()))


def two_members(world: World) -> None:
    """``m`` has 0 and 1 of ``t``, ``n`` has 2 and 3."""
    world.consume("m")
    world.consume("n")
    world.advance(1000)
    world.consume("m", 2)
    world.consume("m", 2, owned={T: frozenset({0, 1})})
    world.consume("n", 2)


def commit(world: World, member_id: str, epoch: int, partition: int = 0) -> Any:
    return world.groups.commit("g", epoch, member_id, None, [OffsetToCommit("t", partition, 7)])
