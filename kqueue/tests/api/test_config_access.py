from __future__ import annotations

import pytest

from kqueue.api.config_access import config_rules, require_config_access
from kqueue.api.request_context import RequestContext
from kqueue.security.errors import ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from kqueue.tests.api.access_requests import Deciding, nothing
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each


@for_each(
    "number, error, asked",
    [
        (2, TopicAuthorizationFailed, (ResourceType.TOPIC, "x")),
        (4, ClusterAuthorizationFailed, (ResourceType.CLUSTER, CLUSTER_NAME)),
        (8, ClusterAuthorizationFailed, (ResourceType.CLUSTER, CLUSTER_NAME)),
        (16, ClusterAuthorizationFailed, (ResourceType.CLUSTER, CLUSTER_NAME)),
        (32, GroupAuthorizationFailed, (ResourceType.GROUP, "x")),
        (77, ClusterAuthorizationFailed, (ResourceType.CLUSTER, CLUSTER_NAME)),
    ],
)
def test_each_kind_of_settings_is_of_a_kind_of_resource(
    number: int, error: type[Exception], asked: tuple[ResourceType, str]
) -> None:
    broker = SimulatedClient().sim.broker
    authorizer = broker.security.authorizer = Deciding(nothing)
    with pytest.raises(error):
        require_config_access(RequestContext(broker, 0), AclOperation.ALTER_CONFIGS, number, "x")
    assert authorizer.asked == [(AclOperation.ALTER_CONFIGS, *asked)]


def test_the_rules_are_those_that_are_checked() -> None:
    rules = {(rule.operation, rule.resource_type) for rule in config_rules(AclOperation.DESCRIBE_CONFIGS)}
    assert rules == {
        (AclOperation.DESCRIBE_CONFIGS, kind) for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    }
