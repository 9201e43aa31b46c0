"""`kqueue.testing.containers` has the calls of the package testcontainers, with their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.community import kafka as original
from testcontainers.core.container import DockerContainer

from kqueue.testing import containers as ours

CLASSES = ("KafkaContainer", "RedpandaContainer")
CALLS = [
    (cls, name)
    for cls in CLASSES
    for name, member in inspect.getmembers(getattr(original, cls))
    if not name.startswith("_") and (callable(member) or isinstance(member, property))
]


def parameters(member: object) -> list[tuple[str, object, object]]:
    """Name, kind and default of each parameter. `exec` may take anything: it takes no command."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(member).parameters.values()]  # type: ignore[arg-type]


@pytest.mark.parametrize(("cls", "name"), CALLS)
def test_each_call_is_there_with_the_same_arguments(cls: str, name: str) -> None:
    theirs, own = getattr(getattr(original, cls), name), getattr(getattr(ours, cls), name)
    if isinstance(theirs, property):
        assert isinstance(own, property)
    else:
        assert parameters(own) == parameters(theirs)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_constructors_have_the_same_arguments(cls: str) -> None:
    assert parameters(getattr(ours, cls)) == parameters(getattr(original, cls))


def attributes(cls: type) -> Iterator[str]:
    """The public attributes that constructors set, by their source."""
    for one in (cls, DockerContainer):
        for line in inspect.getsource(one.__init__).splitlines():  # type: ignore[misc]
            name = line.strip().partition("self.")[2].partition(" ")[0].rstrip(":")
            if line.strip().startswith("self.") and name.isidentifier() and not name.startswith("_"):
                yield name


WITHOUT = {"boot_command", "listeners", "security_protocol_map"}
"""Of the script that starts Kafka in the container."""


@pytest.mark.parametrize("cls", CLASSES)
def test_attributes_are_the_same(cls: str) -> None:
    made = getattr(ours, cls)()
    named = set(attributes(getattr(original, cls)))
    assert len(named) >= 5
    assert [name for name in sorted(named - WITHOUT) if not hasattr(made, name)] == []


def test_variables_of_a_file_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "kafka.env"
    file.write_text("KAFKA_NUM_PARTITIONS=3\nKAFKA_HEAP_OPTS=-Xmx1g\n")
    with ours.KafkaContainer().with_env_file(file) as kafka:
        kafka.broker.create_topic("orders")
        assert kafka.broker.topics["orders"].partitions == 3
