"""Wraps calls into a plugin so that its errors name the plugin. Built-ins are not wrapped."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from kqueue.base.errors import StorageFailed, TooManyOpenFiles


class PluginCall:
    """Calls the methods of one storage or metadata-store plugin; breaches of contract raise
    StorageFailed.

    Attributes:
        title: the plugin, for messages (`RegistryEntry.title`).
        passing: exceptions that the contract allows; they pass through.
    """

    __slots__ = ("passing", "title")

    def __init__(self, title: str, passing: tuple[type[Exception], ...]) -> None:
        self.title = title
        self.passing = passing

    def __call__(
        self, what: str, expected: type | tuple[type, ...], run: Callable[..., Any], *args: Any, **named: Any
    ) -> Any:
        """Return the result of `run`.

        Args:
            what: name of the call, for messages.
            expected: the types that it may return.
        Raises: TooManyOpenFiles: `run` raised EMFILE or ENFILE. StorageFailed: it raised, or
            returned, what its contract does not allow. The exceptions in `passing`.
        """
        try:
            result = run(*args, **named)
        except self.passing:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
                raise TooManyOpenFiles(f"{self.title}: {what} failed: {error.strerror}") from error
            raise StorageFailed(f"{self.title}: {what} failed", detail=f"{type(error).__name__}: {error}") from error
        if not isinstance(result, expected):
            raise self.contract_violation(what, result, expected)
        return result

    def contract_violation(self, what: str, result: object, expected: type | tuple[type, ...]) -> StorageFailed:
        """Return the error for a `result` of another type than `expected`."""
        type_names = " or ".join(kind.__name__ for kind in (expected if isinstance(expected, tuple) else (expected,)))
        return StorageFailed(
            f"{self.title} broke its contract: {what} returned {type(result).__name__}, expected {type_names}"
        )
