from __future__ import annotations

from kqueue.base.version import KAFKA_VERSIONS
from kqueue.broker.coordinators.record_versions import NEWEST, record_versions
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.groups.offsets.offset_manager import OffsetToCommit
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each

AS_VERSION = "kqueue.as.version"


@for_each("as_version, expected", [(None, 4), ("2.8", 3), ("3.9", 3), ("4.3", 4)])
def test_committed_offsets_have_the_version_of_the_kafka_served_as(as_version: str | None, expected: int) -> None:
    settings = {} if as_version is None else {AS_VERSION: as_version}
    sim = Simulation({"offsets.topic.num.partitions": 1, **settings})
    sim.broker.coordinators.groups.commit("g", -1, "", None, [OffsetToCommit("t", 0, 5)])
    sim.settle()
    partition = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    values = [value for _, value in sim.broker.coordinators.offsets_log.read(partition)]
    assert [int.from_bytes(value[:2], "big") for value in values if value] == [expected]


def test_each_kafka_that_a_broker_may_serve_as_has_its_versions() -> None:
    assert KAFKA_VERSIONS
    for as_version in KAFKA_VERSIONS:
        versions = record_versions(as_version)
        assert versions.committed_offset <= NEWEST.committed_offset
        assert versions.transaction in (None, 0)
    assert record_versions(None) == record_versions("4.3") == NEWEST
