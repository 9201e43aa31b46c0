"""Commits of the ZooKeeper store: values that are larger than a request, and outcomes."""

from __future__ import annotations

import random
from contextlib import closing
from unittest import mock

import pytest

from kqueue.base.errors import Conflict, SessionLost, StorageFailed
from kqueue.metadata import zookeeper_commits
from kqueue.metadata.store import COMMIT_SIZE_MAX, VALUE_SIZE_MAX, Entry
from kqueue.tests.metadata.zookeeper_model import ModelServer, open_store, server

__all__ = ["server"]
PARTS = "/cluster/kqueue/parts/"


def parts(server: ModelServer) -> list[str]:
    return sorted(path.removeprefix(PARTS) for path in server.nodes if path.startswith(PARTS))


def incompressible(count: int) -> list[bytes]:
    return [random.Random(seed).randbytes(VALUE_SIZE_MAX) for seed in range(count)]


def test_values_that_do_not_compress_are_stored_in_parts_and_the_parts_go_with_them(server: ModelServer) -> None:
    values = incompressible(COMMIT_SIZE_MAX // VALUE_SIZE_MAX)
    puts = {f"/{number}": value for number, value in enumerate(values)}
    with closing(open_store()) as one, closing(open_store()) as two:
        one.commit({}, puts, [])
        assert {key: entry.value for key, entry in two.read("/").items()} == puts
        assert len(parts(server)) == 2 * len(values)
        version = two.commit({}, {"/0": b"short"}, ["/1"])["/0"]
        assert len(parts(server)) == 2 * (len(values) - 2)
        assert one.read("/0") == {"/0": Entry(b"short", version)}
        one.commit({}, {}, list(puts))
        assert parts(server) == []


def test_only_the_values_that_do_not_fit_are_stored_in_parts(server: ModelServer) -> None:
    with closing(open_store()) as store:
        large = incompressible(1)[0]
        store.commit({}, {"/a": large[:600_000], "/b": large[:500_000], "/c": large[:300_000]}, [])
        assert len(parts(server)) == 1
        assert [len(entry.value) for entry in store.read("/").values()] == [600_000, 500_000, 300_000]


def test_parts_of_a_commit_that_is_refused_are_deleted(server: ModelServer) -> None:
    value = incompressible(1)[0]
    with closing(open_store()) as store:
        session = store.register(1, "one", 60_000)
        with pytest.raises(Conflict):
            store.commit({"/absent": 1}, {"/a": value}, [], by=session)
        assert parts(server) == []
        server.end_session(session.client._kazoo.session)
        with pytest.raises(SessionLost):
            store.commit({}, {"/a": value}, [], by=session)
        assert parts(server) == []


def test_parts_that_a_crash_left_are_deleted_after_a_day(server: ModelServer) -> None:
    with closing(open_store()) as store:
        with (
            mock.patch.object(store._committer, "commit", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            store.commit({}, {"/a": incompressible(1)[0]}, [])
        left = parts(server)
        assert len(left) == 2
        server.now_ms = 1
        with (
            mock.patch.object(store._committer, "commit", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            store.commit({}, {"/a": incompressible(1)[0]}, [])
        store.commit({}, {"/stays": incompressible(1)[0]}, [])
        assert len(parts(server)) == 6
    with closing(open_store()) as store:
        assert set(left) < set(parts(server)), "young parts stay: their commit may still be on its way"
        assert len(parts(server)) == 4
        assert len(store.read("/")["/stays"].value) == VALUE_SIZE_MAX


@pytest.mark.long
def test_too_many_keys_for_a_request_are_refused_before_anything_is_sent(server: ModelServer) -> None:
    with closing(open_store()) as store:
        keys = [f"/topics/{number:05}" for number in range(20_000)]
        begin = server.requests
        for puts, deletes in ((dict.fromkeys(keys, b"x" * 400), []), ({}, keys)):
            with pytest.raises(ValueError, match="20000 keys takes .* commit fewer keys at once"):
                store.commit({}, puts, deletes)
        assert server.requests == begin
        store.commit({}, dict.fromkeys(keys[:6000], b"x"), [])
        store.commit({}, dict.fromkeys(keys[:4000], b"x" * 600), keys[4000:6000])
        assert len(store.read("/")) == 4000


@pytest.mark.long
def test_an_outcome_that_history_does_not_tell_any_more_is_unknown(server: ModelServer) -> None:
    """The answer is lost, and hundreds of other commits follow before the connection is back."""
    with closing(open_store()) as one, closing(open_store()) as two:
        one.commit({}, {"/n": b"0"}, [])

        def fault(number: int, request: object) -> str:
            server.fault = lambda number, request: None
            for other in range(1000):
                two.commit({}, {f"/topics/{other}": b""}, [])
            return "before"

        server.fault = fault
        with pytest.raises(StorageFailed, match="it is unknown whether a commit to ZooKeeper happened"):
            one.commit({}, {"/n": b"1"}, [])
        assert one.read("/n")["/n"].value == b"0"


def test_nodes_that_others_change_again_and_again_are_named(server: ModelServer) -> None:
    with closing(open_store()) as store:
        store.commit({}, {"/a": b"1"}, [])

        def interfere(operations: object, session: int) -> object:
            server.nodes.pop("/cluster/kqueue/data/%2Fa", None)
            if store._mirror.versions(["/a"]) == {}:
                server.nodes["/cluster/kqueue/data/%2Fa"] = server.nodes["/cluster/kqueue/last"]._replace(data=b"1=x")
            return transact(operations, session)

        transact = server._transact
        with (
            mock.patch.object(server, "_transact", side_effect=interfere),
            pytest.raises(StorageFailed, match=r"/data/%2Fa is changed by others .*nothing but kqueue may write there"),
        ):
            store.commit({}, {"/a": b"2"}, [])
        assert zookeeper_commits.REJECTIONS_MAX == 5
