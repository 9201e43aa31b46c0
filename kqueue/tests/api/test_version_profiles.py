from __future__ import annotations

import pytest

from kqueue.api import handler_table, version_profiles
from kqueue.api.request_context import RequestContext
from kqueue.api.version_profiles import KAFKA, VERSIONS, WITH_RECEIVER, VersionProfile
from kqueue.base.errors import SettingError, UnsupportedVersion
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.apis import ALL, BY_KEY
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.api_versions import ApiVersionsRequest
from kqueue.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kqueue.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NAMED = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def ranges(version: str) -> dict[str, tuple[int, int]]:
    return {BY_KEY[row.key].name: (row.low, row.high) for row in VersionProfile(version).advertised}


@for_each("version", VERSIONS)
def test_a_profile_advertises_the_intersection_of_both_ranges(version: str) -> None:
    column = VERSIONS.index(version)
    ours = {row.api.name: row.versions for row in handler_table.all_handlers()}
    advertised = ranges(version)
    for name, (low, high) in advertised.items():
        theirs = (KAFKA | WITH_RECEIVER)[name][column]
        assert theirs is not None
        assert (low, high) == (max(theirs[0], ours[name][0]), min(theirs[1], ours[name][1]))
    unused = {name for name in ours if name not in advertised}
    assert all((KAFKA | WITH_RECEIVER)[name][column] is None for name in unused)
    keys = [row.key for row in VersionProfile(version).advertised]
    assert keys == sorted(keys)


def test_profiles_have_the_versions_of_the_release_notes() -> None:
    """Facts from the release notes, apart from the table: topic ids, KIP-896, flexible Produce."""
    assert ranges("2.8")["Fetch"] == (0, 12)
    assert ranges("3.9")["Fetch"][1] >= 13
    assert ranges("4.3")["Fetch"][0] == 4
    assert ranges("2.8")["Produce"] == (0, 9)
    assert ranges("4.3")["Produce"] == (0, 13)
    assert "DescribeQuorum" not in ranges("2.8")
    assert ranges("3.9")["DescribeQuorum"] == (0, 2)
    assert ranges("2.8")["DescribeClientQuotas"] == (0, 1)  # KIP-546, Kafka 2.6
    assert "ShareFetch" not in ranges("3.9")
    assert "AlterPartition" not in ranges("2.8")  # not served at all, so not told


@for_each("version", VERSIONS)
def test_lookup_serves_advertised_versions_and_refuses_others(version: str) -> None:
    profile = VersionProfile(version)
    for row in profile.advertised:
        for number in range(row.low, row.high + 1):
            if (version, BY_KEY[row.key].name) in version_profiles.ACCEPTED_FROM and number < 3:
                continue
            row_found = profile.lookup(row.key, number)
            assert row_found.api is BY_KEY[row.key]
            assert row_found.versions[0] <= number <= row_found.versions[1]
            assert profile.lookup(row.key, number) is row_found
        if BY_KEY[row.key].name != "ApiVersions":
            for number in {row.low - 1, row.high + 1, 32767}:
                with pytest.raises(
                    UnsupportedVersion, match=f"{BY_KEY[row.key].name} is served from version .* as version {version}"
                ):
                    profile.lookup(row.key, number)
    advertised = {row.key for row in profile.advertised}
    for key in (*(api.key for api in ALL if api.key not in advertised), 999, -1):
        with pytest.raises(UnsupportedVersion, match="not served"):
            profile.lookup(key, 0)


def test_profile_4_advertises_produce_from_0_and_serves_it_from_3() -> None:
    profile = VersionProfile("4.3")
    for number in range(3):
        with pytest.raises(UnsupportedVersion):
            profile.lookup(0, number)
    assert profile.lookup(0, 3).versions == (3, 13)
    assert VersionProfile("3.9").lookup(0, 0).versions == (0, 11)


@for_each("version, high", [("2.8", 3), ("3.9", 4), ("4.3", 4)])
def test_a_newer_api_versions_request_gets_the_range_of_the_profile(version: str, high: int) -> None:
    profile = VersionProfile(version)
    broker = SimulatedClient().sim.broker
    response = profile.lookup(18, high + 1).handle(ApiVersionsRequest(), RequestContext(broker, high + 1))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [(18, 0, high)]
    response = profile.lookup(18, high).handle(NAMED, RequestContext(broker, high))
    assert [(row.api_key, row.min_version, row.max_version) for row in response.api_keys] == [
        tuple(row) for row in profile.advertised if BY_KEY[row.key].name not in WITH_RECEIVER
    ]


GROUPS = {"group.version": 1, "share.version": 1, "streams.version": 1}


@for_each(
    "version, api_version, finalized",
    [
        ("2.8", 3, {}),
        ("3.9", 4, {"metadata.version": 21}),
        ("4.3", 4, {"metadata.version": 30, "transaction.version": 2, **GROUPS}),
    ],
)
def test_a_profile_has_the_features_of_its_kafka(version: str, api_version: int, finalized: dict[str, int]) -> None:
    broker = SimulatedClient().sim.broker
    row = VersionProfile(version).lookup(18, api_version)
    response = row.handle(NAMED, RequestContext(broker, api_version))
    assert {row.name: row.max_version_level for row in response.finalized_features} == finalized
    assert {row.name for row in response.supported_features} == set(finalized)
    assert (response.finalized_features_epoch >= 0) is bool(finalized)


@for_each("version", ["2.8", "3.9"])
@for_each("level", [0, 1, 2])
def test_an_older_kafka_does_not_know_transaction_versions(version: str, level: int) -> None:
    error, message = _update(version, "transaction.version", level)
    assert error == ErrorCode.INVALID_UPDATE_VERSION
    assert "does not know the feature" in message


@for_each(
    "level, refusal",
    [(21, ""), (22, "levels 1 to 21"), (30, "levels 1 to 21"), (20, "an older format"), (0, "levels 1 to 21")],
)
def test_an_older_kafka_keeps_its_metadata_version(level: int, refusal: str) -> None:
    error, message = _update("3.9", "metadata.version", level)
    assert (error == ErrorCode.NONE) is (not refusal)
    assert refusal in message


def test_the_newest_kafka_changes_its_levels() -> None:
    assert _update("4.3", "transaction.version", 1) == (ErrorCode.NONE, "")


def _update(version: str, feature: str, level: int) -> tuple[int, str]:
    """Return the error code and the message of a change of a level."""
    client = SimulatedClient()
    before = client.sim.broker.metadata.features.levels
    row = VersionProfile(version).lookup(57, 0 if version == "2.8" else 1)
    kind = 1 if version == "2.8" or level > 21 else 2
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    context = RequestContext(client.sim.broker, 0 if version == "2.8" else 1)
    response = client.sim.answer(row.handle(UpdateFeaturesRequest(feature_updates=[update]), context))
    assert (client.sim.broker.metadata.features.levels == before) is (version != "4.3")
    return response.error_code, response.error_message or ""


def test_an_unknown_version_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SettingError, match=r"version '2\.7'; there are: 2\.8, 3\.9, 4\.3"):
        VersionProfile("2.7")


@for_each("version", VERSIONS)
def test_advertised_versions_are_among_those_of_the_kafka(version: str) -> None:
    whole = {
        name: set(range(row_found[0], row_found[1] + 1))
        for name, row in KAFKA.items()
        if (row_found := row[VERSIONS.index(version)])
    }
    advertised = {
        name: set(range(low, high + 1)) for name, (low, high) in ranges(version).items() if name not in WITH_RECEIVER
    }
    assert advertised
    for name, versions in advertised.items():
        assert versions <= whole[name]


def test_the_table_names_apis_as_the_protocol_does() -> None:
    between_brokers = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
    unserved = {"AlterPartition", "AddRaftVoter", "RemoveRaftVoter"}
    assert set(KAFKA) - {api.name for api in ALL} == between_brokers | unserved
    for columns in KAFKA.values():
        assert any(columns)
        assert all(row_found is None or 0 <= row_found[0] <= row_found[1] for row_found in columns)


def test_a_profile_keeps_the_weight_of_items() -> None:
    assert VersionProfile("4.3").lookup(11, 9).item_weight == handler_table.lookup(11, 9).item_weight > 1


@for_each("version, code", [("3.9", ErrorCode.UNSUPPORTED_VERSION), ("4.3", ErrorCode.INVALID_REQUEST)])
def test_the_new_group_protocol_is_off_in_kafka_3(version: str, code: ErrorCode) -> None:
    """It is advertised, and refused, where `group.version` is 0."""
    broker = SimulatedClient().sim.broker
    heartbeat, describe = (VersionProfile(version).lookup(key, 0) for key in (68, 69))
    response = heartbeat.handle(ConsumerGroupHeartbeatRequest(), RequestContext(broker, 0))
    assert response.error_code == code
    if version == "3.9":
        groups = describe.handle(ConsumerGroupDescribeRequest(group_ids=["g"]), RequestContext(broker, 0)).groups
        assert [group.error_code for group in groups] == [code]
