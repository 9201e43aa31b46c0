"""The advertised API versions, from which clients choose the versions that they use."""

from __future__ import annotations

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.brokers import EXTERNAL, RunningBroker

# Lowest and highest version, by API key.
AT_LEAST = {
    0: (0, 13),  # Produce; from 0, or librdkafka silently turns compression off
    1: (0, 16),  # Fetch
    2: (0, 9),  # ListOffsets
    3: (0, 13),  # Metadata
    8: (0, 9),  # OffsetCommit
    9: (0, 9),  # OffsetFetch
    10: (0, 6),  # FindCoordinator
    11: (0, 9),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 5),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 5),  # DescribeGroups
    16: (0, 5),  # ListGroups
    18: (0, 4),  # ApiVersions
    19: (0, 7),  # CreateTopics
    20: (0, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    32: (0, 4),  # DescribeConfigs
    35: (0, 4),  # DescribeLogDirs
    37: (0, 3),  # CreatePartitions
    42: (0, 2),  # DeleteGroups
}


def test_advertised_versions_cover_client_requirements(broker: RunningBroker) -> None:
    if broker.storage == EXTERNAL:
        pytest.skip("an external broker may serve other versions")
    served = protocol_client.served_apis(broker.bootstrap)
    missing = {
        key: (served.get(key), wanted) for key, wanted in AT_LEAST.items() if not _covers(served.get(key), wanted)
    }
    assert not missing


def _covers(served: tuple[int, int] | None, wanted: tuple[int, int]) -> bool:
    return served is not None and served[0] <= wanted[0] and served[1] >= wanted[1]
