from __future__ import annotations

import json

from kqueue.spark.jobs.audit.gaps import Gap
from kqueue.spark.jobs.audit.report import AuditReport, PartitionAudit

FIRST = PartitionAudit(
    "a", 0, 0, 9, records=5, missing=2, repeated=1, keys=1_024, key_bytes=3, value_bytes=4, gaps=[Gap(1, 3, "missing")]
)


def test_a_partition_as_json_has_all_but_the_data_of_charts() -> None:
    document = json.loads(json.dumps(FIRST.as_json()))
    assert document["gaps"] == [{"first": 1, "end": 3, "why": "missing"}]
    assert document.keys() == set(PartitionAudit.__slots__) - {"cells", "times", "holes"}


def test_counts_of_partitions_are_summed() -> None:
    report = AuditReport("here", 0, [FIRST, PartitionAudit("a", 1, 0, 9, missing=3)], [])
    assert (report.missing, report.repeated, FIRST.bytes) == (5, 1, 7)


def test_large_count_of_keys_is_an_estimate() -> None:
    assert FIRST.keys_are_estimated
    assert not PartitionAudit("a", 0, 0, 9, keys=1_023).keys_are_estimated
