"""Version profiles: a broker serves the API versions of a certain Kafka and no others.

Users test a client upgrade with it. The table is from the ApiVersions responses of those brokers
(versions 0 to 4, plaintext listener):

    2.8    Kafka 2.8.2 with ZooKeeper, as all clusters of that time were
    3.9    Kafka 3.9.1, broker and controller in one process, formatted with its defaults
    4.3    Kafka 4.3.0, likewise

Their features are those that kqueue has too: 2.8 has none, 3.9 has `metadata.version` alone, and
4.3 those of the broker; 2.8 and 3.9 refuse to change them. `kraft.version` is not among them: there
is no Raft log.

None of them had a receiver of client metrics, without which GetTelemetrySubscriptions and
PushTelemetry are not advertised: they have a table of their own. A profile never advertises more
than kqueue serves; `missing` lists the difference.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

from kqueue.api import handler_table
from kqueue.api.handlers import api_versions, update_features
from kqueue.api.handlers.api_versions import Advertised
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import SettingError, UnsupportedVersion
from kqueue.base.version import KAFKA_VERSIONS
from kqueue.broker.metadata.features import GROUP_VERSION, METADATA_VERSION, Feature, FeatureLevels
from kqueue.wire.apis import API_VERSIONS, BY_KEY, UPDATE_FEATURES
from kqueue.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kqueue.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

Range = tuple[int, int]
VERSIONS = KAFKA_VERSIONS
"""The columns of `KAFKA`."""
NONE = None

# fmt: off
KAFKA: dict[str, tuple[Range | None, Range | None, Range | None]] = {
    # API: lowest and highest version in 2.8, 3.9, 4.3; NONE: not in that Kafka
    "Produce": ((0, 9), (0, 11), (0, 13)),
    "Fetch": ((0, 12), (0, 17), (4, 18)),
    "ListOffsets": ((0, 6), (0, 9), (1, 11)),
    "Metadata": ((0, 11), (0, 12), (0, 13)),
    "LeaderAndIsr": ((0, 5), NONE, NONE),
    "StopReplica": ((0, 3), NONE, NONE),
    "UpdateMetadata": ((0, 7), NONE, NONE),
    "ControlledShutdown": ((0, 3), NONE, NONE),
    "OffsetCommit": ((0, 8), (0, 9), (2, 10)),
    "OffsetFetch": ((0, 7), (0, 9), (1, 10)),
    "FindCoordinator": ((0, 3), (0, 6), (0, 6)),
    "JoinGroup": ((0, 7), (0, 9), (0, 9)),
    "Heartbeat": ((0, 4), (0, 4), (0, 4)),
    "LeaveGroup": ((0, 4), (0, 5), (0, 5)),
    "SyncGroup": ((0, 5), (0, 5), (0, 5)),
    "DescribeGroups": ((0, 5), (0, 5), (0, 6)),
    "ListGroups": ((0, 4), (0, 5), (0, 5)),
    "SaslHandshake": ((0, 1), (0, 1), (0, 1)),
    "ApiVersions": ((0, 3), (0, 4), (0, 4)),
    "CreateTopics": ((0, 7), (0, 7), (2, 7)),
    "DeleteTopics": ((0, 6), (0, 6), (1, 6)),
    "DeleteRecords": ((0, 2), (0, 2), (0, 2)),
    "InitProducerId": ((0, 4), (0, 5), (0, 5)),
    "OffsetForLeaderEpoch": ((0, 4), (0, 4), (2, 4)),
    "AddPartitionsToTxn": ((0, 3), (0, 5), (0, 5)),
    "AddOffsetsToTxn": ((0, 3), (0, 4), (0, 4)),
    "EndTxn": ((0, 3), (0, 4), (0, 5)),
    "WriteTxnMarkers": ((0, 1), (0, 1), (1, 2)),
    "TxnOffsetCommit": ((0, 3), (0, 4), (0, 5)),
    "DescribeAcls": ((0, 2), (0, 3), (1, 3)),
    "CreateAcls": ((0, 2), (0, 3), (1, 3)),
    "DeleteAcls": ((0, 2), (0, 3), (1, 3)),
    "DescribeConfigs": ((0, 4), (0, 4), (1, 4)),
    "AlterConfigs": ((0, 2), (0, 2), (0, 2)),
    "AlterReplicaLogDirs": ((0, 2), (0, 2), (1, 2)),
    "DescribeLogDirs": ((0, 2), (0, 4), (1, 5)),
    "SaslAuthenticate": ((0, 2), (0, 2), (0, 2)),
    "CreatePartitions": ((0, 3), (0, 3), (0, 3)),
    "CreateDelegationToken": ((0, 2), (0, 3), (1, 3)),
    "RenewDelegationToken": ((0, 2), (0, 2), (1, 2)),
    "ExpireDelegationToken": ((0, 2), (0, 2), (1, 2)),
    "DescribeDelegationToken": ((0, 2), (0, 3), (1, 3)),
    "DeleteGroups": ((0, 2), (0, 2), (0, 2)),
    "ElectLeaders": ((0, 2), (0, 2), (0, 2)),
    "IncrementalAlterConfigs": ((0, 1), (0, 1), (0, 1)),
    "AlterPartitionReassignments": ((0, 0), (0, 0), (0, 1)),
    "ListPartitionReassignments": ((0, 0), (0, 0), (0, 0)),
    "OffsetDelete": ((0, 0), (0, 0), (0, 0)),
    "DescribeClientQuotas": ((0, 1), (0, 1), (0, 1)),
    "AlterClientQuotas": ((0, 1), (0, 1), (0, 1)),
    "DescribeUserScramCredentials": ((0, 0), (0, 0), (0, 0)),
    "AlterUserScramCredentials": ((0, 0), (0, 0), (0, 0)),
    "DescribeQuorum": (NONE, (0, 2), (0, 2)),
    "AlterPartition": ((0, 0), NONE, NONE),
    "UpdateFeatures": ((0, 0), (0, 1), (0, 2)),
    "DescribeCluster": ((0, 0), (0, 1), (0, 2)),
    "DescribeProducers": ((0, 0), (0, 0), (0, 0)),
    "UnregisterBroker": (NONE, (0, 0), (0, 0)),
    "DescribeTransactions": (NONE, (0, 0), (0, 0)),
    "ListTransactions": (NONE, (0, 1), (0, 2)),
    "ConsumerGroupHeartbeat": (NONE, (0, 0), (0, 1)),
    "ConsumerGroupDescribe": (NONE, (0, 0), (0, 1)),
    "ListConfigResources": (NONE, (0, 0), (0, 1)),
    "DescribeTopicPartitions": (NONE, (0, 0), (0, 0)),
    "ShareGroupHeartbeat": (NONE, NONE, (1, 1)),
    "ShareGroupDescribe": (NONE, NONE, (1, 1)),
    "ShareFetch": (NONE, NONE, (1, 2)),
    "ShareAcknowledge": (NONE, NONE, (1, 2)),
    "AddRaftVoter": (NONE, (0, 0), (0, 1)),
    "RemoveRaftVoter": (NONE, (0, 0), (0, 0)),
    "InitializeShareGroupState": (NONE, NONE, (0, 0)),
    "ReadShareGroupState": (NONE, NONE, (0, 0)),
    "WriteShareGroupState": (NONE, NONE, (0, 1)),
    "DeleteShareGroupState": (NONE, NONE, (0, 0)),
    "ReadShareGroupStateSummary": (NONE, NONE, (0, 1)),
    "StreamsGroupHeartbeat": (NONE, NONE, (0, 0)),
    "StreamsGroupDescribe": (NONE, NONE, (0, 0)),
    "DescribeShareGroupOffsets": (NONE, NONE, (0, 1)),
    "AlterShareGroupOffsets": (NONE, NONE, (0, 0)),
    "DeleteShareGroupOffsets": (NONE, NONE, (0, 0)),
}
# fmt: on

WITH_RECEIVER: dict[str, tuple[Range | None, Range | None, Range | None]] = {
    "GetTelemetrySubscriptions": (NONE, (0, 0), (0, 0)),
    "PushTelemetry": (NONE, (0, 0), (0, 0)),
}
"""The APIs that a Kafka with a receiver of client metrics serves besides (KIP-714, Kafka 3.7)."""

ACCEPTED_FROM: dict[tuple[str, str], int] = {("4.3", "Produce"): 3}
"""Lowest accepted version where a Kafka advertises older ones.

Produce 0 to 2 are advertised for librdkafka and close the connection (KAFKA-18659).
"""


FEATURES: dict[str, FeatureLevels] = {
    "2.8": FeatureLevels(),
    "3.9": FeatureLevels([Feature(METADATA_VERSION, 1, 21, 21)], {METADATA_VERSION: 21}, 1),
}
"""Features of Kafkas that have others than the broker."""


NEEDED_FEATURES = dict.fromkeys(("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"), GROUP_VERSION)
"""APIs that a Kafka without this feature advertises and refuses."""


class VersionProfile:
    """The part of `api.handler_table` that one Kafka version serves. Raises SettingError: unknown
    version.
    """

    def __init__(self, version: str) -> None:
        self.version = _check(version)
        self._cache: dict[tuple[int, int], handler_table.ApiHandler] = {}

    def __repr__(self) -> str:
        return f"VersionProfile({self.version!r})"

    @property
    def advertised(self) -> list[Advertised]:
        """The advertised APIs, by key: versions that both this Kafka and kqueue serve."""
        return _advertised(self.version)

    def lookup(self, api_key: int, api_version: int) -> handler_table.ApiHandler:
        """Return what `handler_table.lookup` does, for this Kafka. Raises UnsupportedVersion: it
        would disconnect.
        """
        handler = self._cache.get((api_key, api_version))
        if handler is None:
            handler = self._look_up(api_key, api_version)
            if handler.versions[0] <= api_version <= handler.versions[1]:
                self._cache[api_key, api_version] = handler
        return handler

    def _look_up(self, api_key: int, api_version: int) -> handler_table.ApiHandler:
        advertised_range = next((row for row in self.advertised if row.key == api_key), None)
        if advertised_range is None:
            name = BY_KEY[api_key].name if api_key in BY_KEY else f"an API with key {api_key}"
            raise UnsupportedVersion(f"{name} is not served as version {self.version}")
        row = handler_table.load(BY_KEY[api_key].module_name)
        if api_key == API_VERSIONS:
            return replace(
                row, versions=(advertised_range.low, advertised_range.high), handle=self._handle_api_versions
            )
        if api_key == UPDATE_FEATURES and self.version in FEATURES:
            row = replace(row, handle=self._handle_update_features)
        feature = NEEDED_FEATURES.get(row.api.name)
        if feature is not None and self.version in FEATURES and feature not in FEATURES[self.version].finalized:
            row = replace(row, handle=partial(_refuse, row, f"{feature} is off as version {self.version}"))
        low = max(advertised_range.low, ACCEPTED_FROM.get((self.version, row.api.name), advertised_range.low))
        if not low <= api_version <= advertised_range.high:
            served = f"from version {low} to {advertised_range.high} as version {self.version}"
            raise UnsupportedVersion(f"{row.api.name} is served {served}, the request has {api_version}")
        return replace(row, versions=(low, advertised_range.high))

    def _handle_api_versions(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        features = FEATURES.get(self.version, context.broker.metadata.features.levels)
        return api_versions.respond(request, context, self.advertised, features)

    def _handle_update_features(
        self, request: UpdateFeaturesRequest, context: RequestContext
    ) -> UpdateFeaturesResponse:
        return update_features.refuse_changes(request, context, FEATURES[self.version])


def _refuse(row: handler_table.ApiHandler, reason: str, request: Any, context: RequestContext) -> Any:
    return row.error_response(request, context.api_version, UnsupportedVersion(reason))


@cache
def _advertised(version: str) -> list[Advertised]:
    number = VERSIONS.index(version)
    kafka = _column(version) | {name: versions for name, row in WITH_RECEIVER.items() if (versions := row[number])}
    common = []
    for row in handler_table.all_handlers():
        low, high = kafka.get(row.api.name, (1, 0))
        low, high = max(low, row.versions[0]), min(high, row.versions[1])
        if low <= high:
            common.append(Advertised(row.api.key, low, high))
    return common


def _column(version: str) -> dict[str, Range]:
    """The ranges of one Kafka, by API."""
    number = VERSIONS.index(version)
    return {name: versions for name, columns in KAFKA.items() if (versions := columns[number]) is not None}


def _check(version: str) -> str:
    if version not in VERSIONS:
        raise SettingError(f"kqueue can't serve as version {version!r}; there are: {', '.join(VERSIONS)}")
    return version
