from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from kafka import KafkaConsumer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

import kqueue
from kqueue.telemetry import pace
from kqueue.telemetry.exposition import SamplesCollector
from kqueue.telemetry.metrics import BY_NAME
from kqueue.telemetry.pace import PAUSE_S, WORK_S
from kqueue.telemetry.samples import Samples
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


def test_a_long_text_is_written_in_steps_with_the_interpreter_free_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    times = count(step=WORK_S / 10)
    pauses: list[float] = []
    monkeypatch.setattr(pace, "monotonic_s", lambda: next(times))
    monkeypatch.setattr(pace, "sleep", pauses.append)
    samples = Samples()
    for number in range(1000):
        samples.add("kqueue_partition_end_offset", number, "t", str(number))
    lines = [line for family in SamplesCollector(lambda: samples).collect() for line in family.samples]
    assert len(lines) == 1000
    assert len(pauses) >= 90
    assert set(pauses) == {PAUSE_S}
