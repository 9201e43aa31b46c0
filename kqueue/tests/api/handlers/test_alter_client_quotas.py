from __future__ import annotations

from typing import Any

import pytest

from kqueue.api.handlers.alter_client_quotas import ENTRIES_MAX
from kqueue.base.errors import InvalidRequest
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataInRequest,
    OpData,
)
from kqueue.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

Parts = dict[str, str | None]
Change = dict[str, float | None]


def entry(parts: Parts, *changes: Change) -> EntryDataInRequest:
    return EntryDataInRequest(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for change in changes
            for key, value in change.items()
        ],
    )


def alter(client: SimulatedClient, *entries: EntryDataInRequest, version: int = 1, validate_only: bool = False) -> Any:
    return client.ask(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only), version).entries


def stored(client: SimulatedClient) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    return {
        tuple((part.entity_type, part.entity_name) for part in row.entity): {one.key: one.value for one in row.values}
        for row in client.ask(DescribeClientQuotasRequest(), 1).entries
    }


@for_each("version", versions_of("alter_client_quotas"))
def test_quotas_are_set_changed_and_removed(version: int) -> None:
    client = SimulatedClient()
    ann: Parts = {"user": "ann"}
    [row] = alter(client, entry(ann, {"producer_byte_rate": 1024.0, "request_percentage": 12.5}), version=version)
    assert (row.error_code, row.error_message) == (0, None)
    assert [(part.entity_type, part.entity_name) for part in row.entity] == [("user", "ann")]
    alter(client, entry(ann, {"producer_byte_rate": None, "consumer_byte_rate": 5.0}), version=version)
    assert stored(client) == {(("user", "ann"),): {"request_percentage": 12.5, "consumer_byte_rate": 5.0}}
    both: Change = {"request_percentage": None, "consumer_byte_rate": None, "controller_mutation_rate": None}
    assert alter(client, entry(ann, both), version=version)[0].error_code == 0
    assert stored(client) == {}


def test_a_change_that_is_invalid_is_refused_alone() -> None:
    client = SimulatedClient()
    rows = alter(
        client,
        entry({"user": "ann"}, {"producer_byte_rate": 1.0}),
        entry({"user": "bob"}, {"producer_byte_rate": 1.0, "colour": 2.0}),
        entry({"user": "ann"}, {"producer_byte_rate": 2.0}),
        entry({"user": None}, {"producer_byte_rate": 1.0}, {"producer_byte_rate": 1.0}),
        entry({"ip": "10.0.0.1", "user": "a"}, {}),
        entry({"client-id": None}, {"consumer_byte_rate": 3.0}),
    )
    invalid = ErrorCode.INVALID_REQUEST
    assert [row.error_code for row in rows] == [0, invalid, invalid, invalid, invalid, 0]
    assert "colour" in rows[1].error_message
    assert "duplicate entity" in rows[2].error_message
    assert "Duplicate quota key" in rows[3].error_message
    assert stored(client) == {
        (("user", "ann"),): {"producer_byte_rate": 1.0},
        (("client-id", None),): {"consumer_byte_rate": 3.0},
    }


def test_validation_changes_nothing() -> None:
    client = SimulatedClient()
    rows = alter(
        client,
        entry({"user": "ann"}, {"producer_byte_rate": 1.0}),
        entry({"user": "bob"}, {"producer_byte_rate": 0.5}),
        validate_only=True,
    )
    assert [row.error_code for row in rows] == [0, ErrorCode.INVALID_REQUEST]
    assert stored(client) == {}


def test_removing_what_is_not_there_is_no_error() -> None:
    client = SimulatedClient()
    assert [row.error_code for row in alter(client, entry({"user": "ann"}, {"colour": None}))] == [0]


def test_a_store_that_fails_is_the_error_of_all_valid_changes() -> None:
    store = FailingStore()
    client = SimulatedClient(sim=Simulation({"kqueue.storage": "memory"}, store=store))
    store.failing = True
    rows = alter(client, entry({"user": "ann"}, {"producer_byte_rate": 1.0}), entry({}, {}))
    assert [row.error_code for row in rows] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_REQUEST]


def test_a_request_with_too_many_entities_is_refused() -> None:
    entries = [entry({"user": "ann"}, {})] * (ENTRIES_MAX + 1)
    with pytest.raises(InvalidRequest, match="at most 1000"):
        alter(SimulatedClient(), *entries)
