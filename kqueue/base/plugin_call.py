"""Calls into what a plugin brought, whose mistakes then carry its name. For what is built in there
is nothing of this.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from kqueue.base.errors import StorageFailed, TooManyOpenFiles


class PluginCall:
    """Calls the methods of one plugin that keeps files or entries: all that it does beside its
    contract becomes StorageFailed.

    title: who it is, for messages (`RegistryEntry.title`). passing: the exceptions that the contract
    allows; they are let through.
    """

    __slots__ = ("passing", "title")

    def __init__(self, title: str, passing: tuple[type[Exception], ...]) -> None:
        self.title = title
        self.passing = passing

    def __call__(
        self, what: str, expected: type | tuple[type, ...], run: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        """What `run` returns. `what`: its name, for messages; `expected`: the types that it may
        return.

        Raises: TooManyOpenFiles: it raised the system's error of that kind. StorageFailed: it
        raised something else than it may, or returned something else. What it may raise.
        """
        try:
            found = run(*args, **named)
        except self.passing:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise TooManyOpenFiles(f"{self.title}: {what} failed: {error.strerror}") from error
            raise StorageFailed(f"{self.title}: {what} failed", detail=f"{type(error).__name__}: {error}") from error
        if not isinstance(found, expected):
            raise self.broken(what, found, expected)
        return found

    def broken(self, what: str, found: object, expected: type | tuple[type, ...]) -> StorageFailed:
        words = " or ".join(kind.__name__ for kind in (expected if isinstance(expected, tuple) else (expected,)))
        return StorageFailed(
            f"{self.title} broke its contract: {what} returned {type(found).__name__}, expected {words}"
        )
