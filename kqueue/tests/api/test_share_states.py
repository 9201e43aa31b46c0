"""The common behaviour of the five APIs of the share coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.api import handler_table
from kqueue.base.errors import NotCoordinator
from kqueue.broker.metadata.features import SHARE_VERSION
from kqueue.schema import decode, encode
from kqueue.tests.api import state_requests as requests
from kqueue.tests.api.state_requests import UNKNOWN_ID, new_client
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

EACH = [requests.initialize, requests.read, requests.write, requests.delete, requests.summarize]
each_api = pytest.mark.parametrize("ask", EACH, ids=lambda ask: ask.__name__)


@each_api
def test_a_group_needs_an_id(ask: Any) -> None:
    assert ask(new_client(), group="").error_code == ErrorCode.INVALID_REQUEST


@each_api
@pytest.mark.parametrize("fields", [{"id": UNKNOWN_ID}, {"partition": 2}, {"partition": -1}])
def test_a_partition_must_exist(ask: Any, fields: dict[str, Any]) -> None:
    expected = 0 if ask is requests.delete else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(new_client(), **fields).error_code == expected


@each_api
def test_another_broker_may_be_the_coordinator(ask: Any) -> None:
    client = new_client()
    requests.initialize(client)
    coordinator = client.sim.broker.share.coordinator
    partition = coordinator.partition_of(requests.key_of(client))
    coordinator.begin_loading(partition)
    assert ask(client).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.unload(partition)
    refused = ask(client)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert "not the coordinator" in refused.error_message


@each_api
def test_without_the_feature_nothing_is_served(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = new_client()
    level = client.sim.broker.metadata.features.level
    monkeypatch.setattr(
        client.sim.broker.metadata.features, "level", lambda name: 0 if name == SHARE_VERSION else level(name)
    )
    assert ask(client).error_code == ErrorCode.UNSUPPORTED_VERSION


@for_each("key", range(83, 88))
def test_an_error_of_the_whole_request_is_that_of_each_partition(key: int) -> None:
    handler = handler_table.lookup(key, 0)
    topic = SimpleNamespace(topic_id=UNKNOWN_ID, partitions=[SimpleNamespace(partition=3)])
    response = handler.error_response(SimpleNamespace(topics=[topic]), 0, NotCoordinator("no"))
    [result] = response.results
    assert result.topic_id == UNKNOWN_ID
    [partition] = result.partitions
    assert (partition.partition, partition.error_code, partition.error_message) == (3, ErrorCode.NOT_COORDINATOR, "no")
    assert decode(handler.api.response_class, 0, encode(response, 0)) == response
