"""A promise is a result that is not there yet; whoever holds it asks again when its key is woken."""

from __future__ import annotations

from typing import Generic, TypeVar

from kqueue.base.errors import KqueueError

T = TypeVar("T")


class Promise(Generic[T]):
    """Empty until `resolve` or `fail`, once. The promise itself is the key that is woken (see
    `broker.purgatory`).
    """

    __slots__ = ("_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: KqueueError | None = None
        self._value: T | None = None

    def resolve(self, value: T) -> None:
        assert not self.done, "a promise is settled once"
        self._value = value
        self.done = True

    def fail(self, error: KqueueError) -> None:
        assert not self.done, "a promise is settled once"
        self.error = error
        self.done = True

    def result(self) -> T:
        """The value. Raises: the error it failed with. The promise must be `done`."""
        assert self.done, "asked too early"
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]
