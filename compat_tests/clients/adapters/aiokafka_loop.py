"""The event loop thread that runs aiokafka's coroutines, and the conversion of its errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from compat_tests.clients.adapters.contract import numbered

T = TypeVar("T")
CALL_TIMEOUT_S = 40


def refusals() -> AbstractContextManager[None]:
    """Raise aiokafka's errors as BrokerError."""
    return numbered(KafkaError)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="aiokafka", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
    with refusals():
        return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result(timeout_s)
