"""A console with a history whose time the test moves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kqueue import Broker
from kqueue.base.clock import wall_ms
from kqueue.client import Client, ClientOptions, TopicPartition
from kqueue.console.app import create_app
from kqueue.console.history.broker_metrics import BrokerMetrics
from kqueue.console.history.sampler import Sampler
from kqueue.console.options import ConsoleOptions
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.client.serving import batch
from kqueue.tests.console.browser import ADDRESS, Browser

STEP_MS = 10_000


@dataclass(slots=True)
class Historian:
    """A browser before a console, its sampler, and a client beside them."""

    browser: Browser
    sampler: Sampler
    client: Client
    clock: ManualClock

    def step(self, written: Mapping[TopicPartition, int] | None = None) -> None:
        """Write so many records to partitions, and take the next sample 10 seconds later."""
        for partition, count in (written or {}).items():
            self.client.produce({partition: batch([b"x" * 10] * count)})
        self.clock.advance(STEP_MS)
        self.sampler.sample()


@contextlib.contextmanager
def historian(broker: Broker, metrics: tuple[str, ...] = (), *, allow_changes: bool = True) -> Iterator[Historian]:
    """Yield a console with one sample, of a clock that began ten minutes ago."""
    options = ConsoleOptions(
        client=ClientOptions(bootstrap=broker.bootstrap), allow_changes=allow_changes, history_interval_ms=STEP_MS
    )
    clock = ManualClock(wall_ms() - 600_000)
    sampler = Sampler(options.client, metrics=[BrokerMetrics(url) for url in metrics], interval_ms=STEP_MS, clock=clock)
    with Client(broker.bootstrap) as client, Browser(create_app(options, sampler=sampler), base_url=ADDRESS) as browser:
        sampler.sample()
        yield Historian(browser, sampler, client, clock)
        sampler.stop()
