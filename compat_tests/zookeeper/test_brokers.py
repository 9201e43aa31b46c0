"""Brokers in processes of their own that share ZooKeeper: who is in, and who is the controller."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from compat_tests.kafka.serving import Process
from compat_tests.waits import eventually, eventually_equal
from compat_tests.zookeeper.server import Ensemble
from kqueue.base.errors import StorageFailed
from kqueue.metadata.zookeeper import ZookeeperStore
from kqueue.replication.registrations import BROKERS_PREFIX, BrokerRegistration

SESSION_TIMEOUT_MS = 3000


def registrations(store: ZookeeperStore) -> Mapping[int, BrokerRegistration]:
    """The brokers that the store knows, by id."""
    ids = {int(key.removeprefix(BROKERS_PREFIX)): entry for key, entry in store.read(BROKERS_PREFIX).items()}
    return {id: BrokerRegistration.from_bytes(id, entry.value) for id, entry in ids.items()}


def unfenced(store: ZookeeperStore) -> set[int]:
    return {id for id, registration in registrations(store).items() if not registration.fenced}


def broker(folder: Path, number: int, address: str, timeout_ms: int = SESSION_TIMEOUT_MS) -> Process:
    settings = {
        "node.id": number,
        "kqueue.cluster.store": f"zookeeper:{address}/brokers",
        "broker.session.timeout.ms": timeout_ms,
        "broker.heartbeat.interval.ms": timeout_ms // 6,
    }
    names = {name.replace(".", "_"): value for name, value in settings.items()}
    return Process(folder / f"data-{number}", folder / f"broker-{number}.log", **names)


def test_brokers_outlive_their_controller_and_servers_of_zookeeper(ensemble: Ensemble, tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = {number: broker(tmp_path, number, ensemble.address) for number in (1, 2, 3)}
        for process in brokers.values():
            stack.enter_context(process)
        store = stack.enter_context(closing(ZookeeperStore(f"{ensemble.address}/brokers")))
        eventually_equal(lambda: unfenced(store), {1, 2, 3}, "unfenced brokers")
        first = store.controller()
        assert first is not None

        brokers[first.node_id].kill()
        others = {1, 2, 3} - {first.node_id}
        began_s = time.monotonic()
        eventually_equal(lambda: unfenced(store), others, "unfenced brokers")
        assert time.monotonic() - began_s < SESSION_TIMEOUT_MS / 1000 + 10
        second = store.controller()
        assert second is not None
        assert second.node_id in others
        assert second.epoch > first.epoch

        ensemble.servers[0].kill()
        epoch = registrations(store)[first.node_id].epoch
        stack.enter_context(brokers[first.node_id])
        eventually(lambda: registrations(store)[first.node_id].epoch > epoch, "it is back with a new epoch")
        eventually_equal(lambda: unfenced(store), {1, 2, 3}, "unfenced brokers")

        epochs = {id: session.epoch for id, session in store.sessions().items()}
        ensemble.servers[1].kill()  # no quorum, for longer than sessions live without a sign of life
        time.sleep(SESSION_TIMEOUT_MS / 1000 * 1.5)
        ensemble.servers[1].start()
        eventually(lambda: _answers(store), "the store answers")
        time.sleep(SESSION_TIMEOUT_MS / 1000 * 1.5)
        assert {id: session.epoch for id, session in store.sessions().items()} == epochs, "the outage ended a session"
        assert unfenced(store) == {1, 2, 3}

        for process in brokers.values():
            process.__exit__(None, None, None)  # as TERM does
        assert store.sessions() == {}
        assert store.controller() is None


def test_a_broker_that_crashed_can_be_started_at_once_and_a_second_one_is_refused(
    ensemble: Ensemble, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(broker(tmp_path, 1, ensemble.address, 10_000))
        store = stack.enter_context(closing(ZookeeperStore(f"{ensemble.address}/brokers")))
        eventually_equal(lambda: unfenced(store), {1}, "unfenced brokers")
        epoch = registrations(store)[1].epoch
        first.crash()  # ZooKeeper does not know yet
        assert "until the session of broker 1's last process ends" in first.said()
        eventually(lambda: unfenced(store) == {1} and registrations(store)[1].epoch > epoch, "it is unfenced again")
        second = broker(tmp_path / "second", 1, ensemble.address)
        (tmp_path / "second").mkdir()
        with pytest.raises(AssertionError, match="Error: node id 1 is in use"):
            second.__enter__()


def _answers(store: ZookeeperStore) -> bool:
    try:
        store.sessions()
    except StorageFailed:
        return False
    return True
