"""Personas: a broker that serves the API versions of a certain Kafka and no others, so that a
client upgrade is tried before it is made.

The table is what those brokers themselves told clients in ApiVersions (versions 0 to 4, plaintext
listener):

    2.8    Kafka 2.8.2 with ZooKeeper, as all clusters of that time were
    3.9    Kafka 3.9.1, broker and controller in one process, formatted with its defaults
    4.3    Kafka 4.3.0, likewise

None of them had a receiver of client metrics (GetTelemetrySubscriptions and PushTelemetry are told
only then). A persona never tells of more than kqueue serves; `missing` says what that leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from kqueue.api import handler_table
from kqueue.api.handlers import api_versions
from kqueue.api.handlers.api_versions import Advertised
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import SettingError, UnsupportedVersion
from kqueue.wire.apis import API_VERSIONS, BY_KEY
from kqueue.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

Range = tuple[int, int]
VERSIONS = ("2.8", "3.9", "4.3")
"""The columns of `KAFKA`."""
NONE = None

# fmt: off
KAFKA: dict[str, tuple[Range | None, Range | None, Range | None]] = {
    # API: lowest and highest version in 2.8, 3.9, 4.3; NONE: that Kafka does not have it
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

ACCEPTED_FROM: dict[tuple[str, str], int] = {("4.3", "Produce"): 3}
"""Where a Kafka tells of older versions than it accepts.

Produce 0 to 2 are told for librdkafka's sake, and close the connection (KAFKA-18659).
"""


class MissingVersions(NamedTuple):
    """Versions of an API that a Kafka serves and kqueue does not, `low` to `high`."""

    api: str
    low: int
    high: int


class VersionProfile:
    """What is served as one Kafka: the part of `kqueue.api.handler_table` that it has. Raises SettingError:
    see `lookup_of`.
    """

    def __init__(self, version: str) -> None:
        self.version = _known(version)
        self._found: dict[tuple[int, int], handler_table.ApiHandler] = {}

    def __repr__(self) -> str:
        return f"VersionProfile({self.version!r})"

    @property
    def advertised(self) -> list[Advertised]:
        """What ApiVersions tells, by key: the versions that both this Kafka and kqueue have."""
        return _advertised(self.version)

    def lookup(self, api_key: int, api_version: int) -> handler_table.ApiHandler:
        """As `table.lookup`, for this Kafka. Raises UnsupportedVersion: it would close the
        connection.
        """
        found = self._found.get((api_key, api_version))
        if found is None:
            found = self._look_up(api_key, api_version)
            if found.versions[0] <= api_version <= found.versions[1]:
                self._found[api_key, api_version] = found
        return found

    def _look_up(self, api_key: int, api_version: int) -> handler_table.ApiHandler:
        told = next((row for row in self.advertised if row.key == api_key), None)
        if told is None:
            name = BY_KEY[api_key].name if api_key in BY_KEY else f"an API with key {api_key}"
            raise UnsupportedVersion(f"{name} is not served as version {self.version}")
        row = handler_table.load(BY_KEY[api_key].module_name)
        if api_key == API_VERSIONS:
            return replace(row, versions=(told.low, told.high), handle=self._tell)
        low = max(told.low, ACCEPTED_FROM.get((self.version, row.api.name), told.low))
        if not low <= api_version <= told.high:
            served = f"from version {low} to {told.high} as version {self.version}"
            raise UnsupportedVersion(f"{row.api.name} is served {served}, the request has {api_version}")
        return replace(row, versions=(low, told.high))

    def _tell(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        return api_versions.tell(request, context.api_version, self.advertised)


def lookup_of(version: str | None) -> Callable[[int, int], handler_table.ApiHandler]:
    """Who serves a key at a version, as this Kafka or (None) as kqueue itself: what `table.lookup`
    is.

    Raises SettingError: there is no such persona, and those that there are.
    """
    return handler_table.lookup if version is None else VersionProfile(version).lookup


def missing(version: str) -> list[MissingVersions]:
    """What that Kafka serves and kqueue does not, in order of the APIs' keys: whole APIs, or some
    versions. Raises SettingError.

    APIs that only brokers use among themselves are told too; a client does not miss them.
    """
    return list(_missing(_known(version)))


def _missing(version: str) -> Iterator[MissingVersions]:
    served = {row.api.name: row.versions for row in handler_table.all_handlers()}
    for name, (low, high) in _column(version).items():
        ours = served.get(name)
        if ours is None or ours[1] < low or ours[0] > high:
            yield MissingVersions(name, low, high)
            continue
        if low < ours[0]:
            yield MissingVersions(name, low, ours[0] - 1)
        if ours[1] < high:
            yield MissingVersions(name, ours[1] + 1, high)


@cache
def _advertised(version: str) -> list[Advertised]:
    theirs = _column(version)
    both = []
    for row in handler_table.all_handlers():
        low, high = theirs.get(row.api.name, (1, 0))
        low, high = max(low, row.versions[0]), min(high, row.versions[1])
        if low <= high:
            both.append(Advertised(row.api.key, low, high))
    return both


def _column(version: str) -> dict[str, Range]:
    """The ranges of one Kafka, by API."""
    number = VERSIONS.index(version)
    return {name: found for name, columns in KAFKA.items() if (found := columns[number]) is not None}


def _known(version: str) -> str:
    if version not in VERSIONS:
        raise SettingError(f"kqueue can't serve as version {version!r}; there are: {', '.join(VERSIONS)}")
    return version
