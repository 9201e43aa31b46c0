from __future__ import annotations

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.telemetry.health import reasons_not_ready
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
