from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.storage.local import LocalStorage
from kqueue.telemetry.health import reasons_not_in_sync, reasons_not_ready
from kqueue.testing import faults
from kqueue.testing.simulation import Simulation
from kqueue.tests.waits import eventually


def reasons(broker: kqueue.Broker) -> list[str]:
    return reasons_not_ready(broker._server.broker)


def test_a_broker_that_serves_all_has_none() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("t")
        assert reasons(broker) == []


def test_a_partition_whose_disk_failed_is_a_reason() -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        broker.create_topic("t")
        made.torn_write("t")
        with pytest.raises(KqueueError, match="EIO"):
            broker.topics["t"].produce_all([b"x"])
        assert reasons(broker) == ["since a failure of its disk 1 partition takes no records"]


def test_a_disk_without_room_for_producers_is_a_reason_until_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free_bytes = 0
    monkeypatch.setattr(LocalStorage, "free_bytes", lambda self: free_bytes)
    monkeypatch.setattr(LocalStorage, "total_bytes", lambda self: 2**40)
    with kqueue.Broker(tmp_path) as broker:
        (reason,) = reasons(broker)
        assert reason.startswith("producers are refused: the disk is full: expected ")
        assert str(tmp_path) in reason
        free_bytes = 2**39
        broker.clock.advance(minutes=1)
        assert reasons(broker) == []


def test_a_data_folder_that_can_not_be_used_is_a_reason(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with kqueue.Broker(log_dirs=[str(one), str(two)]):
        pass
    shutil.rmtree(two)
    two.touch()  # its disk is gone, and something else is in its place
    with kqueue.Broker(log_dirs=[str(one), str(two)]) as broker:
        (reason,) = reasons(broker)
        assert reason.startswith(f"data folder {two} can't be used: ")


def test_logs_that_are_recovered_and_groups_that_are_loaded_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation()
    monkeypatch.setattr(type(sim.broker.ready), "done", False)
    assert reasons_not_ready(sim.broker) == ["groups are still being loaded"]
    monkeypatch.setattr(sim.broker.logs, "unrecovered", lambda: [("t", 0), ("t", 1)])
    assert reasons_not_ready(sim.broker) == ["still to be recovered: 2 logs"]


def test_a_member_without_its_store_says_so_and_is_ready_again() -> None:
    with kqueue.Cluster(2) as cluster:
        cluster.wait_in_sync()
        broker = cluster.brokers[1]
        assert reasons(broker) == []
        cluster.partition(without_store={1})
        eventually(lambda: any("the metadata store does not answer" in one for one in reasons(broker)))
        cluster.heal()
        eventually(lambda: reasons(broker) == [])


def test_replicas_of_a_broker_that_are_behind_are_a_reason_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two replicas here one is behind; others are behind, deleted, or elsewhere."""
    with kqueue.Broker() as broker:
        broker.create_topic("t")
        inner = broker._server.broker
        assert reasons_not_in_sync(inner) == []
        node = inner.identity.node_id
        partitions = [
            SimpleNamespace(replicas=replicas, isr=isr, deleted=deleted)
            for replicas, isr, deleted in (
                ((node, 8), (node, 8), False),
                ((8, node), (8,), False),
                ((node, 8), (node,), False),
                ((8, 9), (8,), False),
                ((8, node), (8,), True),
            )
        ]
        monkeypatch.setattr(type(inner.topics), "__iter__", lambda self: iter([SimpleNamespace(partitions=partitions)]))
        assert reasons_not_in_sync(inner) == ["not in sync yet: 1 replica of this broker"]
        monkeypatch.undo()
