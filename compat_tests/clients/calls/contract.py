"""What the classes of calls have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from kqueue.base.addresses import parse_addresses

CALL = "call_"
NO_REQUEST = "sends no request"


class Calls:
    """The calls of one class of a client.

    `CLIENT` is that class, `LEFT_OUT` maps the methods that are not called to the reason.
    `members`: how many brokers the cluster has; `bootstrap` names them all. A subclass makes the
    client in `__init__` and closes it in `close`.
    """

    CLIENT: type
    LEFT_OUT: ClassVar[dict[str, str]] = {}

    def __init__(self, bootstrap: str, name: Callable[[str], str]) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.members = len(parse_addresses(bootstrap))

    def close(self) -> None: ...

    @classmethod
    def public_methods(cls) -> set[str]:
        """Return the names of all public methods of the client."""
        return {name for name, _ in inspect.getmembers(cls.CLIENT, callable) if not name.startswith("_")}

    @classmethod
    def called(cls) -> list[str]:
        """Return the names of the called methods, in order.

        A table for a subclass inherits the calls, and sets those that it does not have to None.
        """
        names = dict.fromkeys(name for one in reversed(cls.__mro__) for name in vars(one) if name.startswith(CALL))
        return [name.removeprefix(CALL) for name in names if getattr(cls, name) is not None]

    def steps(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield each call of a method that this version of the client has."""
        public = self.public_methods()
        for name in self.called():
            if name in public:
                yield name, getattr(self, CALL + name)
