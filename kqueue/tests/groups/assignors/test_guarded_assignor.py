from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import PluginError
from kqueue.base.registry import Registry
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.assignors import ASSIGNORS, AssignorFactory
from kqueue.groups.assignors.guarded_assignor import GuardedAssignor
from kqueue.tests.groups.assignors.plugins import FirstTakesAll, returning
from kqueue.tests.tables import for_each


def assign(factory: Any) -> Any:
    with ASSIGNORS.added("mine", factory, "a test"):
        return run_to_end(ASSIGNORS.get("mine")().assign([], {}))


def test_a_good_one_is_used_as_it_is() -> None:
    assert assign(FirstTakesAll) == {}


def test_built_ins_are_not_guarded() -> None:
    assert not any(isinstance(ASSIGNORS.get(name)(), GuardedAssignor) for name in ("uniform", "range"))
    assert isinstance(ASSIGNORS, Registry)


class NoGenerator:
    def assign(self, members: Any, topics: Any) -> Any:
        return {}


def fail() -> Any:
    raise LookupError("no settings")


@for_each(
    "factory, words",
    [
        ({}, "expected a class, or a callable without arguments, found {}"),
        (fail, "could not be made: LookupError: no settings"),
        (object, "expected an assignor, found object without the method assign"),
        (NoGenerator, "broke its contract: assign returned dict, expected a generator"),
        (returning(KeyError("k")), "could not assign: KeyError: 'k'"),
    ],
)
def test_every_failure_has_the_plugins_name(factory: AssignorFactory, words: str) -> None:
    with pytest.raises(PluginError, match=f"^assignor 'mine' of a test:? {words}"):
        assign(factory)
