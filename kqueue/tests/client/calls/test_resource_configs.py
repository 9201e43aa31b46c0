from __future__ import annotations

import pytest

import kqueue
from kqueue.client import Client, ConfigChange, ConfigOperation, ResourceType, SettingRow
from kqueue.client.calls.resource_configs import AlterResource, DescribeResources, ListResources, describe_resource
from kqueue.client.errors import BadAnswer, BrokerRefused, ClientError
from kqueue.tests.client.serving import QUICK
from kqueue.wire.messages import describe_configs, incremental_alter_configs, list_config_resources

TOPIC, BROKER, LOGGER, METRICS, GROUP = ResourceType


def test_settings_of_every_type_are_described_and_changed() -> None:
    with kqueue.Broker() as broker, Client(broker.bootstrap, **QUICK) as client:
        broker.create_topic("t")
        for kind, name, setting, value in [
            (BROKER, "1", "log.retention.ms", "9"),
            (LOGGER, "1", "kqueue.server", "FATAL"),
            (GROUP, "g", "consumer.session.timeout.ms", "50000"),
            (METRICS, "m", "interval.ms", "1000"),
        ]:
            client.alter_configs(kind, name, [ConfigChange(ConfigOperation.SET, setting, value)])
            assert client.configs(kind, [name], [setting])[name][setting].value == value
            if setting != "kqueue.server":
                client.alter_configs(kind, name, [ConfigChange(ConfigOperation.DELETE, setting)])
                assert client.configs(kind, [name], [setting])[name][setting].value != value
            client.alter_configs(kind, name, [ConfigChange(ConfigOperation.SET, setting, value)], validate_only=True)
        client.alter_configs(TOPIC, "t", [ConfigChange(ConfigOperation.SET, "retention.ms", "7")])
        client.alter_configs(BROKER, "", [ConfigChange(ConfigOperation.SET, "log.retention.ms", "8")])
        row = client.configs(TOPIC, ["t"], ["retention.ms"])["t"]["retention.ms"]
        assert (row.value, row.source, row.is_read_only) == ("7", "DYNAMIC_TOPIC_CONFIG", False)
        assert [synonym.source for synonym in row.synonyms] == [
            "DYNAMIC_TOPIC_CONFIG",
            "DYNAMIC_DEFAULT_BROKER_CONFIG",
            "DEFAULT_CONFIG",
        ]
        assert row.documentation
        assert list(client.configs(BROKER, ["", "1"])[""]) == ["log.retention.ms"]
        assert client.configs(BROKER, ["1"], ["node.id"])["1"]["node.id"].is_read_only
        assert client.config_resources(TOPIC) == ["t"]
        assert client.config_resources(METRICS) == []
        with pytest.raises(ClientError, match="the cluster has no broker 5, its brokers are 1"):
            client.configs(BROKER, ["1", "5"])
        with pytest.raises(BrokerRefused, match="IncrementalAlterConfigs of topic 't': INVALID_CONFIG") as caught:
            client.alter_configs(TOPIC, "t", [ConfigChange(ConfigOperation.APPEND, "retention.ms", "7")])
        assert caught.value.broker_message == (
            "Can't APPEND to key retention.ms because its type is not LIST. "
            "APPEND is for lists, and retention.ms has one value (LONG): use SET"
        )


def test_responses_about_something_else_are_errors() -> None:
    with pytest.raises(BadAnswer, match="is not about topic 't'"):
        DescribeResources(TOPIC, ["t"]).result(4, describe_configs.DescribeConfigsResponse(), "b:1")
    twice = [describe_configs.DescribeConfigsResult(resource_name="t")] * 2
    with pytest.raises(BadAnswer, match="is not about topic 't'"):
        DescribeResources(TOPIC, ["t"]).result(4, describe_configs.DescribeConfigsResponse(results=twice), "b:1")
    with pytest.raises(BadAnswer, match="is not about the defaults of all brokers"):
        AlterResource(BROKER, "", []).result(1, incremental_alter_configs.IncrementalAlterConfigsResponse(), "b:1")


def test_an_unknown_source_is_no_error() -> None:
    row = describe_configs.DescribeConfigsResourceResult(name="a", value="1", config_source=77)
    result = describe_configs.DescribeConfigsResult(resource_name="t", resource_type=2, configs=[row])
    response = describe_configs.DescribeConfigsResponse(results=[result])
    assert DescribeResources(TOPIC, ["t"]).result(4, response, "b:1") == {
        "t": {"a": SettingRow("a", "1", "UNKNOWN", False, False, [], "")}
    }


def test_lists_need_the_version_that_knows_the_type() -> None:
    assert ListResources(METRICS).versions == (0, 1)
    assert ListResources(GROUP).versions == (1, 1)
    rows = [list_config_resources.ConfigResource(resource_name=name, resource_type=32) for name in "ba"]
    response = list_config_resources.ListConfigResourcesResponse(config_resources=rows)
    assert ListResources(GROUP).result(1, response, "b:1") == ["a", "b"]
    with pytest.raises(BrokerRefused):
        ListResources(GROUP).result(1, list_config_resources.ListConfigResourcesResponse(error_code=35), "b:1")


def test_resources_have_names_in_messages() -> None:
    assert describe_resource(LOGGER, "1") == "broker logger '1'"
    assert describe_resource(BROKER, "") == "the defaults of all brokers"
