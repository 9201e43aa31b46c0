"""The event loop that brokers run on."""

from __future__ import annotations

import asyncio

from kqueue.base.clock import monotonic_s


class BrokerEventLoop(asyncio.SelectorEventLoop):
    """A loop whose timers run by the machine's clock, also while a test has frozen
    `time.monotonic` (see `kqueue.base.clock`). It has `add_reader` on every platform.
    """

    time = staticmethod(monotonic_s)
