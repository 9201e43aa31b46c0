from __future__ import annotations

import asyncio
import time

from freezegun import freeze_time

from kqueue.network.event_loop import BrokerEventLoop


def test_a_timer_runs_while_a_test_has_frozen_the_time() -> None:
    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner, freeze_time("2020-01-01"):
        loop = runner.get_loop()
        assert loop.time() != time.monotonic()
        runner.run(asyncio.sleep(0.001))


def test_loop_time_is_the_monotonic_clock() -> None:
    with asyncio.Runner(loop_factory=BrokerEventLoop) as runner:
        before_s = time.monotonic()
        assert before_s <= runner.get_loop().time() <= time.monotonic()
