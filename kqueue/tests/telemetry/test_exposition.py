from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

import kqueue
from kqueue.telemetry.metrics import BY_NAME
from kqueue.tests.telemetry.scraping import get, port_of, values_of


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0", kqueue_metrics_names_max=2) as broker:
        yield broker


def test_each_name_is_in_the_table_with_its_labels_and_its_kind(broker: kqueue.Broker) -> None:
    broker.create_topic("orders")
    broker.topics["orders"].produce_all([b"x"])
    for family in text_string_to_metric_families(get(port_of(broker), "/metrics")[2]):
        if family.name.startswith("kqueue_"):
            metric = BY_NAME[family.name]
            assert family.type == metric.kind.value
            assert family.documentation == metric.meaning
            assert all(set(metric.labels) == set(sample.labels) - {"le"} for sample in family.samples)


def test_open_metrics_are_written_to_those_who_ask(broker: kqueue.Broker) -> None:
    _, content_type, text = get(port_of(broker), "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert "kqueue_ready" in {family.name for family in open_metrics(text)}


def test_names_that_need_it_are_escaped(broker: kqueue.Broker) -> None:
    consumer = KafkaConsumer("t", bootstrap_servers=broker.bootstrap, group_id='a"b\\c\nd\u2028é')
    broker.create_topic("t")
    consumer.poll(2000)
    consumer.commit()
    text = get(port_of(broker), "/metrics")[2]
    assert 'group="a\\"b\\\\c\\nd\u2028é"' in text
    values_of(text)
    consumer.close()
