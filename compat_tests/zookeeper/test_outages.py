"""Servers that are killed, paused and without quorum."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from compat_tests.kafka.node import free_ports
from compat_tests.waits import eventually
from compat_tests.zookeeper.server import Ensemble, Server
from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.zookeeper import ZookeeperStore

LIMIT_S = 2.0
SLACK_S = 10
END_S = 60
"""On a busy machine."""


class Counter:
    """Counts in a thread, by guarded commits, through every failure of the store."""

    def __init__(self, store: ZookeeperStore) -> None:
        self._store = store
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0
        self.failures = 0
        self.longest_s = 0.0
        self.error: BaseException | None = None

    def __enter__(self) -> Counter:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join(END_S)
        assert not self._thread.is_alive(), f"the counter does not end; it is at {self.count}"

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                begin = time.monotonic()
                try:
                    self._step()
                except StorageFailed:
                    self.failures += 1
                self.longest_s = max(self.longest_s, time.monotonic() - begin)
        except BaseException as error:
            self.error = error

    def _step(self) -> None:
        entry = self._store.read("/n").get("/n")
        number = 0 if entry is None else int(entry.value)
        # After a failure the commit has happened or it has not; what is read then stays.
        assert number in (self.count, self.count + 1), f"{self.count} commits returned, and the store has {number}"
        self.count = number
        try:
            self._store.commit({"/n": None if entry is None else entry.version}, {"/n": b"%d" % (number + 1)}, [])
        except Conflict as conflict:
            raise AssertionError("a commit that was reported as failed happened later") from conflict
        self.count = number + 1

    def goes_on(self) -> None:
        """Wait for ten more commits."""
        before = self.count
        eventually(lambda: self.error is not None or self.count >= before + 10, "commits go on")
        assert self.error is None, self.error


def test_no_server_is_named_with_what_to_check(shared_server: Server) -> None:
    (port,) = free_ports(1)
    begin = time.monotonic()
    with pytest.raises(StorageFailed, match=rf"can't reach ZooKeeper at 127.0.0.1:{port} within 1.0 s: check that"):
        ZookeeperStore(f"127.0.0.1:{port}/x", timeout_s=1)
    assert time.monotonic() < begin + 1 + SLACK_S
    with closing(ZookeeperStore(f"127.0.0.1:{port},{shared_server.address}/test/one-of-two")):
        pass


def test_a_server_that_is_killed_and_started_again_has_everything(own_server: Server) -> None:
    with closing(ZookeeperStore(own_server.address, timeout_s=LIMIT_S)) as store, Counter(store) as counter:
        session = store.register(1, "one", 20_000)
        term = store.campaign(session)
        woken = threading.Event()
        store.watch(woken.set)
        for _ in range(3):
            counter.goes_on()
            own_server.kill()
            failures = counter.failures
            eventually(lambda: counter.failures > failures, "a call fails in bounded time")  # noqa: B023
            with pytest.raises(StorageFailed, match="does not answer"):
                session.keep_alive()
            own_server.start()
            counter.goes_on()
            woken.clear()
            store.commit({}, {"/by-controller": b""}, [], by=term)
            assert woken.wait(30), "a watch did not outlive the server"
            session.keep_alive()
        assert counter.longest_s < 2 * LIMIT_S + SLACK_S, "a read, and a commit"


def test_a_paused_server_costs_bounded_time(own_server: Server) -> None:
    with closing(ZookeeperStore(own_server.address, timeout_s=LIMIT_S)) as store, Counter(store) as counter:
        for _ in range(3):
            counter.goes_on()
            own_server.pause()
            failures = counter.failures
            eventually(lambda: counter.failures >= failures + 2, "a call fails in bounded time")  # noqa: B023
            own_server.resume()
            counter.goes_on()
        assert counter.longest_s < 2 * LIMIT_S + SLACK_S, "a read, and a commit"


def test_an_ensemble_outlives_each_of_its_members(ensemble: Ensemble) -> None:
    """One after the other, the leader too, is killed and started again: calls wait, none fails."""
    with closing(ZookeeperStore(f"{ensemble.address}/one/two", timeout_s=20)) as store, Counter(store) as counter:
        session = store.register(1, "one", 20_000)
        for server in ensemble.servers:
            counter.goes_on()
            server.kill()
            counter.goes_on()
            session.keep_alive()
            server.start()
        counter.goes_on()
        assert counter.failures == 0
        assert set(store.sessions()) == {1}


def test_an_ensemble_without_quorum_refuses_in_bounded_time_and_serves_on_when_it_is_back(ensemble: Ensemble) -> None:
    store = ZookeeperStore(ensemble.address, timeout_s=LIMIT_S)
    with closing(store), Counter(store) as counter:
        session = store.register(1, "one", 20_000)
        term = store.campaign(session)
        counter.goes_on()
        for server in ensemble.servers[:2]:
            server.kill()
        failures = counter.failures
        eventually(lambda: counter.failures >= failures + 2, "calls fail in bounded time")
        begin = time.monotonic()
        with pytest.raises(StorageFailed, match="can't reach ZooKeeper at .* that a majority of them is up"):
            ZookeeperStore(ensemble.address, timeout_s=1)
        assert time.monotonic() < begin + 1 + SLACK_S
        assert not session.lost
        ensemble.servers[0].start()
        counter.goes_on()
        session.keep_alive()
        store.commit({}, {"/by-controller": b""}, [], by=term)
        assert counter.longest_s < 2 * LIMIT_S + SLACK_S, "a read, and a commit"


def test_a_read_sees_what_was_committed_through_another_server(ensemble: Ensemble) -> None:
    stores = [ZookeeperStore(server.address) for server in ensemble.servers]
    try:
        for number in range(600):
            value = b"%d" % number
            version = stores[number % 3].commit({}, {"/n": value}, [])["/n"]
            assert stores[(number + 1) % 3].read("/n")["/n"] == (value, version)
            assert stores[(number + 2) % 3].changes(version - 1).entries == {"/n": (value, version)}
    finally:
        for store in stores:
            store.close()
