from __future__ import annotations

from collections.abc import Iterable, Mapping

from kqueue.metadata.memory import MemoryStore


class FailingStore(MemoryStore):
    """A metadata store whose disk fails while `failing` is set."""

    failing = False

    def commit(
        self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
    ) -> Mapping[str, int]:
        if self.failing:
            raise OSError("no disk")
        return super().commit(guards, puts, deletes)
