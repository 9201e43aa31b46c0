"""Brokers in processes of their own that share PostgreSQL; a walk of docs/clusters.md."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from compat_tests.kafka.serving import Process
from compat_tests.postgres.server import Server
from compat_tests.waits import eventually, eventually_equal
from kqueue.metadata.postgres import PostgresStore
from kqueue.replication.registrations import BROKERS_PREFIX, BrokerRegistration

SESSION_TIMEOUT_MS = 5000


def registrations(store: PostgresStore) -> Mapping[int, BrokerRegistration]:
    """The brokers that the store knows, by id."""
    ids = {int(key.removeprefix(BROKERS_PREFIX)): entry for key, entry in store.read(BROKERS_PREFIX).items()}
    return {id: BrokerRegistration.from_bytes(id, entry.value) for id, entry in ids.items()}


def unfenced(store: PostgresStore) -> set[int]:
    return {id for id, registration in registrations(store).items() if not registration.fenced}


def broker(folder: Path, number: int, server: Server) -> Process:
    settings = {
        "node.id": number,
        "kqueue.cluster.store": server.address,
        "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
        "broker.heartbeat.interval.ms": SESSION_TIMEOUT_MS // 6,
    }
    names = {name.replace(".", "_"): value for name, value in settings.items()}
    return Process(folder / f"data-{number}", folder / f"broker-{number}.log", **names)


def test_brokers_outlive_their_controller_and_a_crash_of_postgres(own_server: Server, tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = {number: broker(tmp_path, number, own_server) for number in (1, 2, 3)}
        for process in brokers.values():
            stack.enter_context(process)
        store = stack.enter_context(closing(PostgresStore(own_server.address)))
        eventually_equal(lambda: unfenced(store), {1, 2, 3}, "unfenced brokers")
        first = store.controller()
        assert first is not None

        brokers[first.node_id].kill()
        eventually_equal(lambda: unfenced(store), {1, 2, 3} - {first.node_id}, "unfenced brokers")
        second = store.controller()
        assert second is not None
        assert second.node_id != first.node_id
        assert second.epoch > first.epoch

        epoch = registrations(store)[first.node_id].epoch
        stack.enter_context(brokers[first.node_id])
        eventually(lambda: registrations(store)[first.node_id].epoch > epoch, "it is back with a new epoch")
        eventually_equal(lambda: unfenced(store), {1, 2, 3}, "unfenced brokers")

        epochs = {id: session.epoch for id, session in store.sessions().items()}
        own_server.kill()
        own_server.start()
        eventually_equal(lambda: unfenced(store), {1, 2, 3}, "unfenced brokers")
        assert {id: session.epoch for id, session in store.sessions().items()} == epochs, "the crash ended a session"

        for process in brokers.values():
            process.__exit__(None, None, None)  # as TERM does
        assert dict(store.sessions()) == {}
        assert store.controller() is None


def test_a_password_in_the_address_is_refused_and_is_in_no_log(own_server: Server, tmp_path: Path) -> None:
    text = own_server.address.replace("kqueue@", "kqueue:hidden-secret@")
    process = Process(tmp_path / "data", tmp_path / "broker.log", kqueue_cluster_store=text)
    with pytest.raises(AssertionError, match=r"kqueue\.postgres\.password"):
        process.__enter__()
    assert "hidden-secret" not in process.said()
