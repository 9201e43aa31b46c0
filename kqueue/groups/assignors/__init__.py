"""Server-side assignors by name."""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.base.registry import Registry
from kqueue.groups.assignors.contract import (
    Assignment,
    Assignor,
    AssignorFactory,
    AssignorMember,
    AssignorTopic,
    AssignorWork,
)
from kqueue.groups.assignors.guarded_assignor import GuardedAssignorFactory
from kqueue.groups.assignors.range import RangeAssignor
from kqueue.groups.assignors.uniform import UniformAssignor

__all__ = [
    "ASSIGNORS",
    "KAFKA_NAMES",
    "Assignment",
    "Assignor",
    "AssignorFactory",
    "AssignorMember",
    "AssignorTopic",
    "AssignorWork",
    "assignor_names",
]

KAFKA_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
KAFKA_NAMES = {f"{KAFKA_PACKAGE}UniformAssignor": "uniform", f"{KAFKA_PACKAGE}RangeAssignor": "range"}
"""Classes that Kafka's setting may name, and what they are called by clients."""


def assignor_names(setting: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the assignors in `group.consumer.assignors`.

    Each item is NAME, NAME=module:Class (registered already), or a class of `KAFKA_NAMES`.

    Raises: PluginError: there is no assignor of one of these names.
    """
    names = tuple(KAFKA_NAMES.get(item, item).partition("=")[0].strip() for item in setting)
    for name in names:
        ASSIGNORS.get(name)
    return names


ASSIGNORS: Registry[AssignorFactory] = Registry("kqueue.assignors", "assignor", guard=GuardedAssignorFactory)
ASSIGNORS.add("uniform", UniformAssignor)
ASSIGNORS.add("range", RangeAssignor)
