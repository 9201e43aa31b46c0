from __future__ import annotations

import pytest

from kqueue.client.calls.configs import ConfigEntry, DescribeTopics
from kqueue.client.errors import BadAnswer
from kqueue.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def test_a_response_about_another_topic_is_an_error() -> None:
    response = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name="u")])
    with pytest.raises(BadAnswer, match=r"b:1: \w+: the answer is not about t"):
        DescribeTopics(["t"], None).result(4, response, "b:1")


def test_the_settings_of_a_topic_are_told_from_the_brokers() -> None:
    rows = [
        DescribeConfigsResourceResult(name="a", value="1", config_source=1),
        DescribeConfigsResourceResult(name="b", value=None, config_source=5),
    ]
    response = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_name="t", configs=rows)])
    assert DescribeTopics(["t"], None).result(4, response, "b:1") == {
        "t": {"a": ConfigEntry("1", True), "b": ConfigEntry(None, False)}
    }
