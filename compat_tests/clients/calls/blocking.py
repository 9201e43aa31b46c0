"""An asyncio client as a blocking one, so that both have one table of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Blocking:
    """The methods of the client that `make` returns, run to their end on an event loop of its own.

    Between two calls the loop stands still. `close` closes the client and the loop, `end` the loop.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._runner = asyncio.Runner()

        async def making() -> Any:
            return make()

        self._client = self._runner.run(making())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return self._runner.run(method(*arguments, **named))

        return call

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def result(self, future: asyncio.Future[Any]) -> Any:
        async def waiting() -> Any:
            return await future

        return self._runner.run(waiting())

    def end(self) -> None:
        self._runner.close()
