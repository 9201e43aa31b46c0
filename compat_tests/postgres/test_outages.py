"""PostgreSQL that is killed, hangs, or fails over: errors in bounded time, nothing lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from compat_tests.postgres.server import Server
from compat_tests.waits import eventually, eventually_equal
from kqueue.base.errors import Conflict, StorageFailed
from kqueue.metadata.postgres import PostgresStore


class Writer:
    """A thread that adds one to a counter, under a guard and with a key for each, until it is
    stopped. `confirmed`: the numbers whose commits returned.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._stopped = threading.Event()
        self.confirmed: list[int] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            with suppress(StorageFailed, Conflict):
                entry = self._store.read("/n").get("/n")
                number = int(entry.value) + 1 if entry is not None else 1
                guard = None if entry is None else entry.version
                self._store.commit({"/n": guard, f"/{number}": None}, {"/n": b"%d" % number, f"/{number}": b""}, [])
                self.confirmed.append(number)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join(60)

    def goes_on(self) -> None:
        """Return once more commits were confirmed."""
        before = len(self.confirmed)
        eventually(lambda: len(self.confirmed) >= before + 5, "commits")

    def check(self, store: PostgresStore) -> None:
        """Nothing that was confirmed is lost, and nothing happened twice or in part."""
        entries = store.read("/")
        numbers = {int(key[1:]) for key in entries if key != "/n"}
        assert set(self.confirmed) <= numbers
        assert len(self.confirmed) == len(set(self.confirmed))
        assert numbers == set(range(1, int(entries["/n"].value) + 1))


def test_a_server_killed_under_commits_loses_none_of_those_that_returned(own_server: Server) -> None:
    with closing(PostgresStore(own_server.address, timeout_s=20)) as store:
        writer = Writer(store)
        with writer.running():
            for _ in range(3):
                writer.goes_on()
                own_server.kill()
                own_server.start()
            writer.goes_on()
        with closing(PostgresStore(own_server.address)) as other:
            writer.check(other)


def test_sessions_outlive_a_server_that_is_away_for_longer_than_their_timeout(own_server: Server) -> None:
    with closing(PostgresStore(own_server.address)) as store:
        session = store.register(1, "one", 4000)  # longer than a busy machine takes to start it
        term = store.campaign(session)
        assert term is not None
        own_server.kill()
        time.sleep(4.2)
        own_server.start()
        session.keep_alive()
        store.commit({}, {"/a": b""}, [], by=term)
        assert set(store.sessions()) == {1}


def test_a_server_that_hangs_is_an_error_in_bounded_time_and_the_commit_does_not_come_late(own_server: Server) -> None:
    with closing(PostgresStore(own_server.address, timeout_s=1)) as store:
        store.commit({}, {"/a": b"1"}, [])
        own_server.pause()
        try:
            began_s = time.monotonic()
            with pytest.raises(StorageFailed, match=r"can't use PostgreSQL at 127\.0\.0\.1"):
                store.commit({}, {"/a": b"2"}, [])
            assert time.monotonic() - began_s < 15
        finally:
            own_server.resume()
        eventually(lambda: _reads(store), "the store answers")
        seen = store.read("/")["/a"]
        time.sleep(1)  # longer than what was given up may still run
        assert store.read("/")["/a"] == seen


def test_no_server_is_an_error_that_names_it(own_server: Server) -> None:
    own_server.kill()
    with pytest.raises(StorageFailed, match=rf"127\.0\.0\.1:{own_server.port}/postgres within 0\.5 s: .*check that"):
        PostgresStore(own_server.address, timeout_s=0.5)
    own_server.start()


def test_a_promoted_synchronous_standby_has_every_confirmed_commit() -> None:
    """The address names both servers, and the standby first: it is passed over until it is
    promoted.
    """
    with Server() as primary, Server(primary=primary) as standby:
        primary.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.run("SELECT pg_reload_conf()")
        eventually_equal(lambda: _sync_states(primary), ["sync"], "states of standbys")
        address = f"postgresql://kqueue@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
        with closing(PostgresStore(address, timeout_s=30)) as store:
            session = store.register(1, "one", 60_000)
            writer = Writer(store)
            with writer.running():
                writer.goes_on()
                primary.kill()
                standby.promote()
                writer.goes_on()
            session.keep_alive()
            store.commit({}, {"/z": b""}, ["/z2"], by=session)
            store.commit({}, {}, ["/z"], by=session)
            writer.check(store)


def test_a_commit_is_not_confirmed_while_its_synchronous_standby_is_away() -> None:
    """Sessions stay alive meanwhile, and what was given up is settled when the standby is back."""
    with Server() as primary, Server(primary=primary) as standby:
        primary.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.run("SELECT pg_reload_conf()")
        eventually_equal(lambda: _sync_states(primary), ["sync"], "states of standbys")
        with closing(PostgresStore(primary.address, timeout_s=1)) as store:
            session = store.register(1, "one", 60_000)
            standby.stop()
            with pytest.raises(StorageFailed):
                store.commit({}, {"/a": b"1"}, [])
            with pytest.raises(StorageFailed):
                store.read("/")
            session.keep_alive()
            standby.start()
            eventually(lambda: _reads(store), "the store answers")
            assert [entry.value for entry in store.read("/").values()] == [b"1"], "it was on the primary's disk"
            store.commit({}, {"/a": b"2"}, [], by=session)


def _sync_states(primary: Server) -> list[str]:
    return [str(state) for (state,) in primary.run("SELECT sync_state FROM pg_stat_replication")]


def _reads(store: PostgresStore) -> bool:
    try:
        store.read("/")
    except StorageFailed:
        return False
    return True
