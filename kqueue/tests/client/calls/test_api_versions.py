from __future__ import annotations

import pytest

import kqueue
from kqueue.client import Client
from kqueue.client.calls.api_versions import DescribeApis
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.api_versions import ApiVersionsResponse


def test_the_versions_are_those_of_the_broker() -> None:
    with kqueue.Broker(as_version="2.8") as broker, Client(broker.bootstrap) as client:
        served = client.cluster.api_versions()
    assert (served[0], served[1], 68 in served) == ((0, 9), (0, 12), False)


def test_an_error_of_the_broker_is_raised() -> None:
    with pytest.raises(BrokerRefused, match="UNSUPPORTED_VERSION"):
        DescribeApis().result(4, ApiVersionsResponse(error_code=35), "here:1")
