from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import kqueue
from kqueue.tests.testing.raw import Raw
from kqueue.tests.waits import HangLimit
from kqueue.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource

SUBSCRIPTION = {"metrics": "*", "interval.ms": "100", "match": "client_software_name=confluent-.*"}

LAZY = """
import sys, kqueue
with kqueue.Broker() as broker:
    early = [name for name in sys.modules if name.startswith(("kqueue.embedded.inspection.", "kqueue.log_tools."))]
    assert early == ["kqueue.embedded.inspection.mixin"], early
    assert list(broker.topics) == []
"""


def test_inspection_is_imported_on_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_is_told_of_a_broker_that_does_not_run() -> None:
    broker = kqueue.Broker()
    for use in (
        lambda: list(broker.topics),
        lambda: list(broker.groups),
        lambda: broker.groups["g"],
        lambda: broker.assert_produced("t", ["x"]),
        lambda: broker.assert_consumed("t", group="g"),
        lambda: broker.snapshot("nowhere"),
    ):
        with pytest.raises(RuntimeError, match="the broker is not running"):
            use()


def test_views_outlive_a_restart_and_are_used_from_many_threads() -> None:
    with kqueue.Broker() as broker:
        topics = broker.topics
        broker.create_topic("t", 2)

        def fill() -> None:
            for number in range(20):
                topics["t"].produce(b"%d" % number)

        threads = [threading.Thread(target=fill) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        broker.restart()
        assert broker.topics is topics
        assert sorted(int(one.value or b"") for one in topics["t"].records()) == sorted(list(range(20)) * 4)


def test_a_failed_assertion_points_at_the_test() -> None:
    """pytest leaves out frames that say so; what is left ends where the test called."""
    from _pytest._code import ExceptionInfo

    with kqueue.Broker() as broker:
        broker.create_topic("t")
        try:
            broker.assert_produced("t", ["x"])
        except AssertionError:
            info = ExceptionInfo.from_current()
        shown = info.traceback.filter(info)
        assert [entry.name for entry in shown] == ["test_a_failed_assertion_points_at_the_test"]


def test_metrics_that_a_stock_client_pushes_are_shown() -> None:
    """librdkafka finds the subscription by itself, and pushes to it."""
    confluent = pytest.importorskip("confluent_kafka")
    with kqueue.Broker(kqueue_client_metrics="memory") as broker:
        configs = [AlterableConfig(name=name, value=text) for name, text in SUBSCRIPTION.items()]
        resource = AlterConfigsResource(resource_type=16, resource_name="all", configs=configs)
        with Raw(broker.bootstrap) as raw:
            raw.send("IncrementalAlterConfigs", 1, resources=[resource])
            assert raw.receive().responses[0].error_code == 0
        producer = confluent.Producer({"bootstrap.servers": broker.bootstrap, "client.id": "orders-1"})
        producer.produce("orders", b"two coffees")
        producer.flush(60)
        limit = HangLimit("metrics")
        while not any(push.metrics for push in broker.client_metrics):
            limit.check()
            producer.poll(0.05)
        push = broker.client_metrics[-1]
        assert (push.client_id, push.software_name) == ("orders-1", "confluent-kafka-python")
        assert all(metric.name.startswith("org.apache.kafka.") for metric in push.metrics)


def test_no_metrics_are_shown_without_the_receiver_in_memory() -> None:
    with kqueue.Broker() as broker, pytest.raises(RuntimeError, match='kqueue_client_metrics="memory"'):
        broker.client_metrics  # noqa: B018
