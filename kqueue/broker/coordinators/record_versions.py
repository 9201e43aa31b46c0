"""Versions of the records in internal topics, by the Kafka that the broker serves as.

Tools that decode `__consumer_offsets`, and an older Kafka that gets the folder, know only the
versions of their time. Records of groups keep their version since Kafka 2.3, and the groups of
later Kafkas are not served by a broker that serves as an older one.
Source: Kafka's `GroupMetadataManager`, `GroupCoordinatorRecordHelpers`, `TransactionLog`.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.groups.log.records import OFFSET_VERSION


class RecordVersions(NamedTuple):
    """The newest version of each value that is written.

    `transaction`: also the highest level of `transaction.version` that the coordinator works at.
    """

    committed_offset: int
    transaction: int | None


NEWEST = RecordVersions(OFFSET_VERSION, None)
OF_KAFKA = {"2.8": RecordVersions(3, 0), "3.9": RecordVersions(3, 0), "4.3": NEWEST}


def record_versions(as_version: str | None) -> RecordVersions:
    """Return the versions of a Kafka; None: kqueue's own, which are those of 4.3."""
    return NEWEST if as_version is None else OF_KAFKA[as_version]
