"""Server-side assignors by name."""

from __future__ import annotations

from kqueue.base.registry import Registry
from kqueue.groups.assignors.contract import (
    Assignment,
    Assignor,
    AssignorFactory,
    AssignorMember,
    AssignorTopic,
    AssignorWork,
)
from kqueue.groups.assignors.range import RangeAssignor
from kqueue.groups.assignors.uniform import UniformAssignor

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "AssignorFactory",
    "AssignorMember",
    "AssignorTopic",
    "AssignorWork",
]

ASSIGNORS: Registry[AssignorFactory] = Registry("kqueue.assignors", "assignor")
ASSIGNORS.add("uniform", UniformAssignor)
ASSIGNORS.add("range", RangeAssignor)
