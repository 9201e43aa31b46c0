"""The traces of requests in the audit log."""

from __future__ import annotations

from typing import Any

from kqueue.security.audit import ADMINISTRATIVE, AuditEvent, Decision
from kqueue.security.operations import AclOperation as Op
from kqueue.security.operations import ResourceType as Type
from kqueue.tests.api.access_requests import (
    AUTHORIZATION_FAILED,
    LEFT_OUT,
    ROWS,
    Deciding,
    Row,
    codes_in,
    nothing,
    only,
    request_for,
    world,
)
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each

PARTIAL = {"describe_cluster", "streams_group_heartbeat"}


class Recorder:
    """Keeps events in place of writing them."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def write(self, event: AuditEvent) -> None:
        self.events.append(event)


def world_of(authorizer: Deciding) -> tuple[SimulatedClient, Recorder]:
    client, recorder = world(), Recorder()
    client.answers_errors = True
    client.sim.broker.security.authorizer = authorizer
    audit: Any = recorder
    client.sim.broker.security.audit = audit
    return client, recorder


def module_of(row: Row) -> str:
    return row.api.module_name


@for_each("row", ROWS)
def test_every_refusal_is_in_the_log(row: Row) -> None:
    client, recorder = world_of(Deciding(nothing))
    version = row.versions[1]
    response = client.ask(request_for(client, module_of(row), version), version)
    denied = [event for event in recorder.events if event.decision is Decision.DENIED]
    if codes_in(response) & set(AUTHORIZATION_FAILED.values()):
        assert denied
    if any(left_out[0] == module_of(row) for left_out in LEFT_OUT):
        assert not denied  # what is not shown was not asked for
    assert all(event.decision is Decision.DENIED for event in recorder.events)


@for_each("row", ROWS)
def test_allowed_requests_are_logged_only_if_administrative(row: Row) -> None:
    client, recorder = world_of(Deciding(lambda action: True))
    version = row.versions[1]
    client.ask(request_for(client, module_of(row), version), version)
    assert all(event.decision is Decision.ALLOWED for event in recorder.events)
    assert all(Op[event.operation] in ADMINISTRATIVE for event in recorder.events)


@for_each("by_cluster", [True, False])
@for_each("module, operation", [("create_topics", Op.CREATE), ("delete_topics", Op.DELETE)])
def test_request_allowed_by_a_cluster_acl_is_logged_with_its_topic(
    module: str, operation: Op, by_cluster: bool
) -> None:
    def allows(action: Any) -> bool:
        return action.operation is Op.DESCRIBE or (action.resource_type is Type.CLUSTER) is by_cluster

    client, recorder = world_of(Deciding(allows))
    version = 5
    client.ask(request_for(client, module, version), version)
    [event] = recorder.events
    assert (event.operation, event.resource) == (operation.name, "TOPIC:t")
    assert event.decision is Decision.ALLOWED


def test_a_topic_id_that_may_not_be_described_is_logged_with_the_name() -> None:
    client, recorder = world_of(Deciding(only([])))
    client.ask(request_for(client, "metadata", 12, name=None), 12)
    assert [event.resource for event in recorder.events] == ["TOPIC:t"]
