"""What metrics say after real clients have used a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import kqueue
from kqueue.telemetry.sample_reader import SampleReader
from kqueue.telemetry.samples import Samples
from kqueue.testing.simulation import Simulation
from kqueue.tests.telemetry.scraping import get, port_of, scrape, sources_of, values_of


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0", kqueue_metrics_names_max=2) as broker:
        yield broker


def test_a_scrape_says_what_clients_did(broker: kqueue.Broker) -> None:
    broker.create_topic("orders", 2)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for _ in range(5):
        producer.send("orders", b"x" * 100, partition=1).get(10)
    producer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="billing", auto_offset_reset="earliest"
    )
    records = 0
    while records < 5:
        records += sum(map(len, consumer.poll(1000).values()))
    consumer.commit()
    broker.topics["orders"].produce_all([b"y"] * 3, partition=1)

    status, content_type, text = get(port_of(broker), "/metrics")
    values = values_of(text)

    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert values["kqueue_requests_total", (("api", "Produce"),)] == 5
    assert values["kqueue_request_handling_seconds_count", (("api", "Metadata"),)] >= 1
    assert values["kqueue_topic_appended_bytes_total", (("topic", "orders"),)] > 500
    assert values["kqueue_topic_sent_bytes_total", (("topic", "orders"),)] > 500
    orders_1 = (("partition", "1"), ("topic", "orders"))
    assert values["kqueue_partition_end_offset", orders_1] == 8
    assert values["kqueue_partition_in_sync_replicas", orders_1] == 1
    assert values["kqueue_group_lag", (("group", "billing"), *orders_1)] == 3
    assert values["kqueue_group_committed_offset", (("group", "billing"), *orders_1)] == 5
    assert values["kqueue_groups", (("state", "Stable"), ("type", "classic"))] == 1
    assert values["kqueue_connections", (("listener", "PLAINTEXT"), ("principal", "anonymous"))] >= 1
    assert values["kqueue_leaders", ()] >= 2
    assert values["kqueue_under_replicated_partitions", ()] == 0
    assert values["kqueue_ready", ()] == 1
    assert values["process_resident_memory_bytes", ()] > 10_000_000
    consumer.close()


def test_an_error_of_a_client_is_counted_by_its_name(broker: kqueue.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=10_000_000, retries=0)
    broker.create_topic("small", max_message_bytes=100)
    with pytest.raises(Exception, match="MessageSizeTooLarge"):
        producer.send("small", b"x" * 1000).get(10)
    producer.close()
    values = values_of(get(port_of(broker), "/metrics")[2])
    assert values["kqueue_request_errors_total", (("api", "Produce"), ("error", "MESSAGE_TOO_LARGE"))] == 1


def test_topics_beyond_the_bound_are_summed_up_and_told_once(
    broker: kqueue.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c", "d"):
        broker.create_topic(name)
        broker.topics[name].produce_all([b"x" * 100])
    for _ in range(2):
        values = values_of(get(port_of(broker), "/metrics")[2])
    topics = {labels[0][1] for name, labels in values if name == "kqueue_topic_appended_bytes_total"}
    assert topics == {"a", "b", "other"}
    assert {dict(labels)["topic"] for name, labels in values if name == "kqueue_partition_end_offset"} == {"a", "b"}
    alone = values["kqueue_topic_appended_bytes_total", (("topic", "a"),)]
    assert values["kqueue_topic_appended_bytes_total", (("topic", "other"),)] == 2 * alone
    told = [record for record in caplog.records if record.name == "kqueue.telemetry"]
    assert [record.getMessage() for record in told] == [
        "metrics name 2 of 4 topics, the others are 'other' (kqueue.metrics.names.max)"
    ]


def test_all_partitions_are_read_with_others_in_between() -> None:
    """A step for each partition, so that clients are served after a few milliseconds."""
    sim = Simulation()
    sim.topic("t", 50)

    sources = sources_of(sim.broker)
    samples: list[Samples] = []

    def read() -> Iterator[object]:
        samples.append((yield from SampleReader(sources).read()))

    assert len(list(read())) > 50
    assert samples[0].values["kqueue_partitions"][()] == 50


def test_a_deleted_topic_has_no_metrics(broker: kqueue.Broker) -> None:
    broker.create_topic("a")
    broker.topics["a"].produce_all([b"x"])
    consumer = KafkaConsumer("a", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    while not consumer.poll(1000):
        pass
    consumer.close()
    assert scrape(broker)["kqueue_topic_sent_bytes_total", (("topic", "a"),)] > 0
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics(["a"])
    admin.close()
    assert not [labels for name, labels in scrape(broker) if ("topic", "a") in labels]
