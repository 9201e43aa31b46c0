"""All APIs of the protocol: key, name, versions. Their classes are imported on first use."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import Any


class Api:
    """One API.

    Attributes:
        versions: first and last version of the classes; a broker may serve fewer.
        flexible_from: first version with compact lengths and tagged fields; None: none has them.
        unstable: the last version is not final and must not be advertised.
    """

    def __init__(
        self, key: int, name: str, versions: tuple[int, int], flexible_from: int | None, *, unstable: bool = False
    ) -> None:
        self.key = key
        self.name = name
        self.versions = versions
        self.flexible_from = flexible_from
        self.unstable = unstable

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} {self.versions[0]}-{self.versions[1]}>"

    def is_flexible(self, version: int) -> bool:
        """Return whether this version has compact lengths and tagged fields."""
        return self.flexible_from is not None and version >= self.flexible_from

    @property
    def module_name(self) -> str:
        """The name in snake case, the name of its modules: ``offset_for_leader_epoch``."""
        return "".join("_" + letter.lower() if letter.isupper() else letter for letter in self.name)[1:]

    @cached_property
    def request_class(self) -> type[Any]:
        """The message class of requests."""
        return self._class("Request")

    @cached_property
    def response_class(self) -> type[Any]:
        """The message class of responses."""
        return self._class("Response")

    def _class(self, suffix: str) -> type[Any]:
        module = importlib.import_module(f"kqueue.wire.messages.{self.module_name}")
        message_class: type[Any] = getattr(module, self.name + suffix)
        return message_class


API_VERSIONS = 18
UPDATE_FEATURES = 57
SECRET_APIS = frozenset({36, 38, 39, 40, 41, 51})
"""Keys of APIs whose requests or responses carry passwords, proofs or tokens: SaslAuthenticate,
CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken,
AlterUserScramCredentials. No log keeps them.
"""

ALL = (
    Api(0, "Produce", (0, 13), 9),
    Api(1, "Fetch", (0, 18), 12),
    Api(2, "ListOffsets", (0, 11), 6),
    Api(3, "Metadata", (0, 13), 9),
    Api(8, "OffsetCommit", (0, 10), 8),
    Api(9, "OffsetFetch", (0, 10), 6),
    Api(10, "FindCoordinator", (0, 6), 3),
    Api(11, "JoinGroup", (0, 9), 6),
    Api(12, "Heartbeat", (0, 4), 4),
    Api(13, "LeaveGroup", (0, 5), 4),
    Api(14, "SyncGroup", (0, 5), 4),
    Api(15, "DescribeGroups", (0, 6), 5),
    Api(16, "ListGroups", (0, 5), 3),
    Api(17, "SaslHandshake", (0, 1), None),
    Api(18, "ApiVersions", (0, 4), 3),
    Api(19, "CreateTopics", (0, 7), 5),
    Api(20, "DeleteTopics", (0, 6), 4),
    Api(21, "DeleteRecords", (0, 2), 2),
    Api(22, "InitProducerId", (0, 6), 2, unstable=True),
    Api(23, "OffsetForLeaderEpoch", (0, 4), 4),
    Api(24, "AddPartitionsToTxn", (0, 5), 3),
    Api(25, "AddOffsetsToTxn", (0, 4), 3),
    Api(26, "EndTxn", (0, 5), 3),
    Api(27, "WriteTxnMarkers", (0, 2), 1),
    Api(28, "TxnOffsetCommit", (0, 5), 3),
    Api(29, "DescribeAcls", (0, 3), 2),
    Api(30, "CreateAcls", (0, 3), 2),
    Api(31, "DeleteAcls", (0, 3), 2),
    Api(32, "DescribeConfigs", (0, 4), 4),
    Api(33, "AlterConfigs", (0, 2), 2),
    Api(34, "AlterReplicaLogDirs", (0, 2), 2),
    Api(35, "DescribeLogDirs", (0, 5), 2),
    Api(36, "SaslAuthenticate", (0, 2), 2),
    Api(37, "CreatePartitions", (0, 3), 2),
    Api(38, "CreateDelegationToken", (0, 3), 2),
    Api(39, "RenewDelegationToken", (0, 2), 2),
    Api(40, "ExpireDelegationToken", (0, 2), 2),
    Api(41, "DescribeDelegationToken", (0, 3), 2),
    Api(42, "DeleteGroups", (0, 2), 2),
    Api(43, "ElectLeaders", (0, 2), 2),
    Api(44, "IncrementalAlterConfigs", (0, 1), 1),
    Api(45, "AlterPartitionReassignments", (0, 1), 0),
    Api(46, "ListPartitionReassignments", (0, 0), 0),
    Api(47, "OffsetDelete", (0, 0), None),
    Api(48, "DescribeClientQuotas", (0, 1), 1),
    Api(49, "AlterClientQuotas", (0, 1), 1),
    Api(50, "DescribeUserScramCredentials", (0, 0), 0),
    Api(51, "AlterUserScramCredentials", (0, 0), 0),
    Api(55, "DescribeQuorum", (0, 2), 0),
    Api(57, "UpdateFeatures", (0, 2), 0),
    Api(60, "DescribeCluster", (0, 2), 0),
    Api(61, "DescribeProducers", (0, 0), 0),
    Api(64, "UnregisterBroker", (0, 0), 0),
    Api(65, "DescribeTransactions", (0, 0), 0),
    Api(66, "ListTransactions", (0, 2), 0),
    Api(68, "ConsumerGroupHeartbeat", (0, 1), 0),
    Api(69, "ConsumerGroupDescribe", (0, 1), 0),
    Api(71, "GetTelemetrySubscriptions", (0, 0), 0),
    Api(72, "PushTelemetry", (0, 0), 0),
    Api(74, "ListConfigResources", (0, 1), 0),
    Api(75, "DescribeTopicPartitions", (0, 0), 0),
    Api(76, "ShareGroupHeartbeat", (0, 1), 0),
    Api(77, "ShareGroupDescribe", (0, 1), 0),
    Api(78, "ShareFetch", (0, 2), 0),
    Api(79, "ShareAcknowledge", (0, 2), 0),
    Api(83, "InitializeShareGroupState", (0, 0), 0),
    Api(84, "ReadShareGroupState", (0, 0), 0),
    Api(85, "WriteShareGroupState", (0, 1), 0),
    Api(86, "DeleteShareGroupState", (0, 0), 0),
    Api(87, "ReadShareGroupStateSummary", (0, 1), 0),
    Api(88, "StreamsGroupHeartbeat", (0, 0), 0),
    Api(89, "StreamsGroupDescribe", (0, 0), 0),
    Api(90, "DescribeShareGroupOffsets", (0, 1), 0),
    Api(91, "AlterShareGroupOffsets", (0, 0), 0),
    Api(92, "DeleteShareGroupOffsets", (0, 0), 0),
)

BY_KEY: dict[int, Api] = {api.key: api for api in ALL}
BY_MODULE: dict[str, Api] = {api.module_name: api for api in ALL}
