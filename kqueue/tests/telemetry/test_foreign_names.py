from __future__ import annotations

import pytest
from kafka import KafkaConsumer

import kqueue
from kqueue.telemetry.foreign_names import FOREIGN_NAMES, KAFKA_EXPORTER, KMINION, ForeignName
from kqueue.telemetry.metrics import BY_NAME, Kind
from kqueue.telemetry.samples import Samples
from kqueue.tests.tables import for_each
from kqueue.tests.telemetry.scraping import get, port_of, values_of


@for_each("row", [*KAFKA_EXPORTER, *KMINION])
def test_each_row_has_a_metric_with_enough_labels(row: ForeignName) -> None:
    source = BY_NAME[row.source]
    assert source.kind is Kind.GAUGE
    assert len(row.where) + len(row.labels) <= len(source.labels)
    assert row.meaning.endswith(".")


def test_labels_that_are_left_away_are_summed_up() -> None:
    samples = Samples()
    for group, topic, partition, lag in (("g", "t", "0", 3), ("g", "t", "1", 4), ("g", "u", "0", 5)):
        samples.add("kqueue_group_lag", lag, group, topic, partition)
    row = ForeignName("x", "kqueue_group_lag", ("group", "topic"), "It sums.")
    assert row.values(samples) == {("g", "t"): 7, ("g", "u"): 5}


def test_partitions_that_another_broker_leads_are_left_to_it() -> None:
    samples = Samples()
    samples.add("kqueue_partition_in_sync_replicas", 2, "t", "0")
    for partition in ("0", "1"):
        samples.add("kqueue_partition_start_offset", 7, "t", partition)
    row = ForeignName("x", "kqueue_partition_start_offset", ("topic", "partition"), "It leads.", of_leader=True)
    assert row.values(samples) == {("t", "0"): 7}


def test_names_of_exporters_are_served_on_request() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker.create_topic("orders", 2)
        broker.topics["orders"].produce_all([b"x"] * 5, partition=1)
        options = {"auto_offset_reset": "earliest", "group_id": "billing", "enable_auto_commit": False}
        consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, **options)
        while not consumer.poll(1000):
            pass
        consumer.commit()
        broker.topics["orders"].produce_all([b"y"] * 3, partition=1)

        values = values_of(get(port_of(broker), "/metrics?names=kafka_exporter")[2])
        topic, partition = ("topic", "orders"), ("partition", "1")
        orders_1, group = (partition, topic), ("consumergroup", "billing")
        expected = {
            ("kafka_brokers", ()): 1,
            ("kafka_topic_partitions", (topic,)): 2,
            ("kafka_topic_partition_current_offset", orders_1): 8,
            ("kafka_topic_partition_oldest_offset", orders_1): 0,
            ("kafka_topic_partition_leader", orders_1): 1,
            ("kafka_topic_partition_replicas", orders_1): 1,
            ("kafka_topic_partition_in_sync_replica", orders_1): 1,
            ("kafka_topic_partition_under_replicated_partition", orders_1): 0,
            ("kafka_consumergroup_members", (group,)): 1,
            ("kafka_consumergroup_lag", (group, *orders_1)): 3,
            ("kafka_consumergroup_lag_sum", (group, topic)): 3,
            ("kafka_consumergroup_current_offset", (group, *orders_1)): 5,
        }
        assert {key: values.get(key) for key in expected} == expected
        assert not [name for name, _ in values if name.startswith("kqueue_")]

        values = values_of(get(port_of(broker), "/metrics?names=kminion")[2])
        lag = (("group_id", "billing"), ("partition_id", "1"), ("topic_name", "orders"))
        assert values["kminion_kafka_consumer_group_topic_partition_lag", lag] == 3
        assert values["kminion_kafka_topic_high_water_mark_sum", (("topic_name", "orders"),)] == 8
        consumer.close()


@pytest.mark.parametrize("query", ["names=jmx", "names=kqueue&names=%00"])
def test_unknown_names_are_refused_with_those_that_there_are(query: str) -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        status, _, text = get(port_of(broker), f"/metrics?{query}")
    assert status == 400
    assert text == "names: expected one of kqueue, kafka_exporter, kminion\n"
    assert set(FOREIGN_NAMES) == {"kafka_exporter", "kminion"}
