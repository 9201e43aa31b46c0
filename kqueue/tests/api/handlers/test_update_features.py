from __future__ import annotations

import pytest

from kqueue.api.handlers.update_features import UPDATES_MAX
from kqueue.base.errors import InvalidRequest
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import ApiVersionsRequest
from kqueue.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TRANSACTION = "transaction.version"
NAMED = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def change(level: int, kind: int = 2, name: str = TRANSACTION) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)


def finalized(client: SimulatedClient) -> dict[str, int]:
    response = client.ask(NAMED, 4)
    return {row.name: row.max_version_level for row in response.finalized_features}


@for_each("version", [1, 2])
def test_a_level_is_changed_and_advertised(version: int) -> None:
    client = SimulatedClient()
    response = client.ask(UpdateFeaturesRequest(feature_updates=[change(1)]), version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert [(row.feature, row.error_code, row.error_message) for row in response.results] == (
        [(TRANSACTION, 0, "NONE")] if version < 2 else []
    )
    assert finalized(client)[TRANSACTION] == 1


@for_each("version", [1, 2])
def test_validate_only_changes_nothing(version: int) -> None:
    client = SimulatedClient()
    ok = client.ask(UpdateFeaturesRequest(feature_updates=[change(1)], validate_only=True), version)
    refused = client.ask(UpdateFeaturesRequest(feature_updates=[change(7)], validate_only=True), version)
    assert (ok.error_code, refused.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION)
    assert finalized(client)[TRANSACTION] == 2


def test_version_0_only_raises_levels() -> None:
    client = SimulatedClient()
    down = FeatureUpdateKey(feature=TRANSACTION, max_version_level=1, allow_downgrade=True)
    assert client.ask(UpdateFeaturesRequest(feature_updates=[down]), 0).error_code == ErrorCode.INVALID_UPDATE_VERSION
    same = FeatureUpdateKey(feature=TRANSACTION, max_version_level=2)
    assert client.ask(UpdateFeaturesRequest(feature_updates=[same]), 0).error_code == ErrorCode.NONE


@for_each("version", versions_of("update_features"))
def test_the_first_refused_feature_is_the_error_of_all(version: int) -> None:
    client = SimulatedClient()
    updates = [change(2, 1), change(1, 1, "nope"), change(9, 1)]
    if version == 0:
        updates = [FeatureUpdateKey(feature=row.feature, max_version_level=row.max_version_level) for row in updates]
    response = client.ask(UpdateFeaturesRequest(feature_updates=updates), version)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message.startswith("The update failed for all features")
    assert "nope" in response.error_message
    assert response.results == []


@for_each("version", versions_of("update_features"))
def test_no_update_is_no_error(version: int) -> None:
    assert SimulatedClient().ask(UpdateFeaturesRequest(), version).error_code == ErrorCode.NONE


def test_too_many_updates_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="at most 1000"):
        SimulatedClient().ask(UpdateFeaturesRequest(feature_updates=[change(2, 1)] * (UPDATES_MAX + 1)), 2)


def test_a_failing_disk_fails_the_update() -> None:
    store = FailingStore()
    client = SimulatedClient(sim=Simulation(store=store))
    store.failing = True
    response = client.ask(UpdateFeaturesRequest(feature_updates=[change(1)]), 2)
    assert response.error_code == ErrorCode.FEATURE_UPDATE_FAILED
    assert finalized(client)[TRANSACTION] == 2
