"""The event loop thread that runs aiokafka's coroutines, and the conversion of its errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from aiokafka.errors import KafkaError, ProducerFenced

from compat_tests.clients.adapters.contract import PRODUCER_FENCED, BrokerError, numbered

T = TypeVar("T")
CALL_TIMEOUT_S = 40
_starting = threading.Lock()


@contextmanager
def refusals() -> Iterator[None]:
    """Raise aiokafka's errors as BrokerError; that of a fenced producer has no code of its own."""
    try:
        with numbered(KafkaError):
            yield
    except ProducerFenced as error:
        raise BrokerError(PRODUCER_FENCED, str(error)) from error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="aiokafka", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
    with _starting:  # two threads that call first would start a loop each
        loop = _loop()
    with refusals():
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout_s)


async def started(client: Any) -> Any:
    """Start a client; one that can't start does not keep its connections and tasks."""
    try:
        await client.start()
    except BaseException:
        await getattr(client, "stop", getattr(client, "close", None))()
        raise
    return client
