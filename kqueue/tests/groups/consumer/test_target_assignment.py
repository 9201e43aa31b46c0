from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors import ASSIGNORS
from kqueue.groups.consumer.target_assignment import AssignmentFailed, compute_target
from kqueue.tests.groups.assignors.plugins import returning
from kqueue.tests.groups.consumer.consumers import T, U
from kqueue.tests.groups.support import World
from kqueue.tests.tables import for_each


@for_each(
    "result, words",
    [
        ({"m": {T: [0]}, "n": {T: [0]}}, "twice"),
        ({"m": {T: [4]}}, "no partition 4"),
        ({"m": {U: [0]}}, "does not subscribe"),
        ({"x": {T: [0]}}, "no member"),
        (None, "returned NoneType"),
    ],
)
def test_a_wrong_assignment_is_refused(result: Any, words: str) -> None:
    world = World()
    world.consume("m")
    world.consume("n")
    named = f"assignor 'wrong' of a test broke its contract: .*{words}"
    with ASSIGNORS.added("wrong", returning(result), "a test"), pytest.raises(AssignmentFailed, match=named):
        run_to_end(compute_target(world.consumer_group(), world.topics, "wrong"))
