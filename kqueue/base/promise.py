"""A result that is not known yet. A delayed operation waits for it, with the promise as its key."""

from __future__ import annotations

from typing import Generic, TypeVar

from kqueue.base.errors import KqueueError

T = TypeVar("T")


class Promise(Generic[T]):
    """Pending until `resolve` or `fail`, one of them once. Belongs to the owner thread.

    The promise does not wake anybody: its owner wakes the purgatory (`broker.purgatory`) with it.
    """

    __slots__ = ("_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: KqueueError | None = None
        self._value: T | None = None

    def resolve(self, value: T) -> None:
        """Settle the promise with a value."""
        assert not self.done, "a promise is settled once"
        self._value = value
        self.done = True

    def fail(self, error: KqueueError) -> None:
        """Settle the promise with an error."""
        assert not self.done, "a promise is settled once"
        self.error = error
        self.done = True

    def result(self) -> T:
        """Return the value. Raises: the error of `fail`. The promise must be `done`."""
        assert self.done, "the promise is pending"
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]
