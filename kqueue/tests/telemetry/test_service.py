from __future__ import annotations

import kqueue
from kqueue.tests.telemetry.scraping import get, port_of, scrape


def test_how_late_the_loop_is_is_counted_each_second() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        before = scrape(broker)["kqueue_loop_delay_seconds_count", ()]
        broker.clock.advance(seconds=5)
        assert scrape(broker)["kqueue_loop_delay_seconds_count", ()] > before


def test_a_broker_that_stops_is_not_ready() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker._server._stopping = True
        try:
            assert get(port_of(broker), "/readyz")[::2] == (503, "the broker is stopping\n")
        finally:
            broker._server._stopping = False


def test_workers_and_brokers_without_the_setting_load_nothing_of_it() -> None:
    with kqueue.Broker() as broker:
        assert broker._server.metrics is None
