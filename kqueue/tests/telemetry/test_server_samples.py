from __future__ import annotations

import asyncio
from pathlib import Path

from kafka import KafkaProducer

import kqueue
from kqueue.base.sliced_task import run_to_end
from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.telemetry.samples import Samples
from kqueue.telemetry.server_samples import read_connections, read_upkeep
from kqueue.testing.simulation import Simulation
from kqueue.tests.network.harness import connect, until
from kqueue.tests.network.sasl_clients import authenticate, in_loop, sasl_serving
from kqueue.tests.telemetry.scraping import NoConnections, scrape, sources_of
from kqueue.tests.waits import eventually
from kqueue.wire.messages.fetch import FetchPartition, FetchTopic


class Connection:
    """A connection with requests that wait."""

    def __init__(self, principal: Principal, *delayed_apis: str) -> None:
        self.listener = "SASL"
        self.principal = principal
        self.delayed_apis = list(delayed_apis)


def test_connections_are_counted_by_listener_and_kind_of_principal_and_requests_by_api() -> None:
    connections = NoConnections()
    ann = Principal("User", "ann")
    connections.sessions = [
        Connection(ANONYMOUS),
        Connection(ann, "Fetch"),
        Connection(ann, "Produce", "Produce"),
        Connection(Principal("User", "bob", by_token=True), "Fetch"),
    ]
    connections.authentication_failures["SASL", "PLAIN"] = 3
    samples = Samples()
    run_to_end(read_connections(samples, connections))
    assert samples.values["kqueue_connections"] == {
        ("SASL", "anonymous"): 1,
        ("SASL", "user"): 2,
        ("SASL", "token"): 1,
    }
    assert samples.values["kqueue_delayed_requests"] == {("Fetch",): 2, ("Produce",): 2}
    assert samples.values["kqueue_authentication_failures"] == {("SASL", "PLAIN"): 3}
    assert "kqueue_request_queue_seconds" not in samples.values, "it is not measured"


def test_throttled_time_is_that_of_each_quota_and_a_cleaner_without_a_run_has_no_time_of_one() -> None:
    broker = Simulation().broker
    broker.security.quotas.held_back("producer_byte_rate", 1500)
    samples = Samples()
    read_upkeep(samples, sources_of(broker))
    assert samples.values["kqueue_throttled_seconds"] == {("producer_byte_rate",): 1.5}
    assert samples.values["kqueue_cleaner_runs"] == {("cleaned",): 0, ("failed",): 0}
    assert "kqueue_cleaner_last_run_timestamp_seconds" not in samples.values


@in_loop
async def test_failed_authentications_are_counted_by_listener_and_mechanism() -> None:
    async with sasl_serving() as server:
        for password in ("wrong", "secret"):
            client = await connect(server, "SASL")
            await authenticate(client, "PLAIN", "ann", password)
        assert server.connections.authentication_failures == {("SASL", "PLAIN"): 1}


@in_loop
async def test_a_request_that_waits_has_the_name_of_its_api() -> None:
    async with sasl_serving() as server:
        client = await connect(server, "PLAINTEXT")
        created = server.broker.topics.create_on_demand("t")
        await until(lambda: created.done)
        topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0)])]
        waiting = asyncio.ensure_future(client.ask("Fetch", 11, topics=topics, max_wait_ms=60_000, min_bytes=1))
        await until(lambda: any(session.delayed_apis for session in server.connections.sessions))
        assert [session.delayed_apis for session in server.connections.sessions] == [["Fetch"]]
        waiting.cancel()


def test_flushes_of_a_broker_on_a_disk_are_measured(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path, kqueue_metrics_listener="127.0.0.1:0") as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for _ in range(3):
            producer.send("t", b"x").get(10)
        producer.close()
        eventually(lambda: scrape(broker)["kqueue_flushed_records_total", ()] >= 3)
        values = scrape(broker)
        assert values["kqueue_flush_seconds_count", ()] >= 3
        assert values["kqueue_flush_failures_total", ()] == 0
        (reserve,) = (value for (name, _), value in values.items() if name == "kqueue_folder_reserve_bytes")
        assert reserve > 0
