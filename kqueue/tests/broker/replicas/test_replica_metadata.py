from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import NotEnoughReplicas
from kqueue.broker.replicas.replica_metadata import ReplicaMetadata
from kqueue.replication.errors import NotEnoughReplicasAfterAppend
from kqueue.replication.registrations import PartitionRegistration


def known(node: int, min_isr: int, *isr: int) -> ReplicaMetadata:
    """Return what broker `node` knows of a partition of brokers 1 and 2, which 1 leads."""
    metadata = ReplicaMetadata("t-0", node, min_isr)
    metadata.registration = PartitionRegistration((1, 2), isr, 1, 5, 0)
    return metadata


def test_a_broker_has_a_replica_when_the_newest_registration_names_it() -> None:
    assert not ReplicaMetadata("t-0", 1, 1).has_replica
    assert known(2, 1, 1).has_replica
    assert not known(3, 1, 1).has_replica


def test_appends_fail_while_fewer_are_in_sync_than_the_topic_demands() -> None:
    metadata = known(1, 2, 1)
    with pytest.raises(NotEnoughReplicas, match="t-0: only 1 replicas are in sync, and min.insync.replicas is 2"):
        metadata.check_in_sync()
    with pytest.raises(NotEnoughReplicasAfterAppend, match="the records were appended"):
        metadata.check_waiting()
    for enough in (known(1, 2, 1, 2), known(1, 1, 1), known(1, 3, 1, 2)):
        enough.check_in_sync()
        enough.check_waiting()


def test_too_few_in_sync_are_logged_once_by_the_leader_and_so_is_the_end_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metadata = known(1, 2, 1)
    with caplog.at_level(logging.WARNING):
        metadata.log_too_few(False)
        assert caplog.messages == []
        metadata.log_too_few(True)
        metadata.log_too_few(True)
        metadata.registration = metadata.registration._replace(isr=(1, 2))
        metadata.log_too_few(True)
        metadata.log_too_few(True)
    assert caplog.messages == [
        "t-0: too few replicas are in sync for acks=all: 1 (1); min.insync.replicas is 2",
        "t-0: enough replicas are in sync again",
    ]
