"""Guard around a plugin's partitioner: every error or wrong result fails one record, with its
name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kqueue.base.errors import PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.records.partitioners.contract import Partitioner, PartitionerFactory


class GuardedPartitionerFactory:
    """Makes partitioners that raise PluginError for all that they do beside the contract."""

    def __init__(self, factory: PartitionerFactory, entry: RegistryEntry[PartitionerFactory]) -> None:
        """Raises PluginError: `factory` can't be called."""
        self._title = entry.title("partitioner")
        self._factory = factory
        if not callable(factory):
            raise PluginError(
                f"{self._title}: expected a class, or a callable that takes a random.Random, found {factory!r:.100}"
            )

    def __call__(self, rng: random.Random) -> Partitioner:
        made = _call(self._title, "could not be made", self._factory, rng)
        if not callable(getattr(made, "partition", None)):
            raise PluginError(
                f"{self._title}: expected a partitioner, found {type(made).__name__} without the method partition"
            )
        return (_GuardedSticky if callable(getattr(made, "new_batch", None)) else GuardedPartitioner)(made, self._title)


class GuardedPartitioner:
    """See `contract.Partitioner`."""

    def __init__(self, partitioner: Partitioner, title: str) -> None:
        self._partitioner: Any = partitioner
        self._title = title

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        """Raises PluginError: the plugin raised, or returned no int from 0 to `count` - 1."""
        partition = self._partitioner.partition
        chosen = _call(
            self._title,
            "could not place a record",
            partition,
            key,
            count,
            available=available,
            value=value,
            topic=topic,
        )
        if type(chosen) is not int or not 0 <= chosen < count:
            raise PluginError(
                f"{self._title} broke its contract: partition returned {chosen!r:.100}, expected an int from 0 to "
                f"{count - 1}"
            )
        return chosen


class _GuardedSticky(GuardedPartitioner):
    """One that wants to hear of new batches."""

    def new_batch(self, topic: str) -> None:
        _call(self._title, "could not begin a batch", self._partitioner.new_batch, topic)


def _call(title: str, what: str, run: Callable[..., Any], *args: Any, **named: Any) -> Any:
    try:
        return run(*args, **named)
    except Exception as error:
        raise PluginError(f"{title} {what}", detail=f"{type(error).__name__}: {error}") from error
