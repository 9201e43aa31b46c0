from __future__ import annotations

from kqueue import Broker
from kqueue.cli.connect import admin
from kqueue.cli.effective_settings import broker_settings, topic_settings
from kqueue.tests.tables import for_each


def test_requested_settings_of_existing_topics() -> None:
    with Broker(node_id=3) as broker:
        broker.create_topic("a", retention_ms=5)
        with admin(broker.bootstrap) as client:
            settings = topic_settings(client, ["a", "missing"], ["retention.ms", "no.such.setting"])
            assert settings == {"a": {"retention.ms": "5"}, "missing": {}}
            assert topic_settings(client, [], ["retention.ms"]) == {}
            assert broker_settings(client, broker.bootstrap, ["kqueue.storage", "no.such.setting"]) == {
                3: {"kqueue.storage": "memory"}
            }


def test_many_topics_are_described_in_batches() -> None:
    class Client:
        asked: list[int]

        def describe_configs(
            self, resources: list[object], config_filter: str
        ) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
            self.asked.append(len(resources))
            return {"topic": {resource.name: {"x": {"value": "1"}} for resource in resources}}  # type: ignore[attr-defined]

    client = Client()
    client.asked = []
    names = [f"t{number}" for number in range(1100)]
    assert topic_settings(client, names, ["x"]) == {name: {"x": "1"} for name in names}
    assert client.asked == [500, 500, 100]


@for_each("version", ["2.8", "3.9"])
def test_older_brokers_return_their_settings(version: str) -> None:
    with Broker(as_version=version) as broker, admin(broker.bootstrap) as client:
        assert broker_settings(client, broker.bootstrap, ["num.partitions"]) == {1: {"num.partitions": "1"}}
