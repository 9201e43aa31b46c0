"""The ZooKeeper store over a model of ZooKeeper: its contract, and connections that break at any
request.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from contextlib import closing

import pytest

from kqueue.base.errors import Conflict, SessionLost, StorageFailed
from kqueue.metadata.zookeeper import ZookeeperStore, parse_zookeeper_address
from kqueue.testing.cluster_store_checks import check_cluster_store
from kqueue.tests.metadata.zookeeper_model import ModelServer, open_store, server
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

__all__ = ["server"]


@pytest.mark.long
def test_meets_the_contract(server: ModelServer) -> None:
    check_cluster_store(open_store, isolated=False)


@for_each(
    "text, servers, chroot",
    [
        ("localhost:2181", "localhost:2181", ""),
        ("a:1,b:2,[::1]:3/x", "a:1,b:2,[::1]:3", "/x"),
        ("a:1/x/zookeeper", "a:1", "/x/zookeeper"),
        ("a/one/two/", "a:2181", "/one/two"),
        ("a:1/", "a:1", ""),
    ],
)
def test_addresses(text: str, servers: str, chroot: str) -> None:
    assert parse_zookeeper_address(text) == (servers, chroot)


@for_each("text", ["", "/x", "a:b", "a:1/x//y", "a:1/..", "a:1/zookeeper", "a:1/\n"])
def test_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="is no|no address"):
        parse_zookeeper_address(text)


def test_without_kazoo_the_error_names_the_command() -> None:
    code = "import sys; sys.modules['kazoo'] = None\nimport kqueue.metadata.zookeeper"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs the package kazoo" in done.stderr
    assert "pip install '.[zookeeper]'" in done.stderr


def test_no_server_answers(server: ModelServer) -> None:
    server.down = True
    with pytest.raises(StorageFailed, match=r"can't reach ZooKeeper at model:2181 within 0\.2 s: check"):
        open_store(timeout_s=0.2)
    assert server.clients == [], "the connection was left open"


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_connection_that_breaks_at_any_request_loses_and_doubles_no_commit(server: ModelServer, fault: str) -> None:
    """Each request of a commit once: of what catches up, too, as another broker commits first."""
    with closing(open_store()) as one, closing(open_store()) as two:
        version = one.commit({}, {"/n": b"0"}, [])["/n"]
        for at in itertools.count(1):
            two.commit({}, {"/other": b"%d" % at}, [])
            begin = server.requests
            server.fault = lambda number, request, at=at, begin=begin: fault if number == begin + at else None  # type: ignore[misc]
            version = one.commit({"/n": version}, {"/n": b"%d" % at}, [])["/n"]
            broke = server.requests >= begin + at
            server.fault = lambda number, request: None
            assert two.read("/n")["/n"] == (b"%d" % at, version)
            if not broke:
                break
        assert at > 6, "no commit had to catch up"


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_connection_that_breaks_at_any_request_registers_and_elects_once(server: ModelServer, fault: str) -> None:
    with closing(open_store()) as store, closing(open_store()) as other:
        for at in itertools.count(1):
            begin = server.requests
            server.fault = lambda number, request, at=at, begin=begin: fault if number == begin + at else None  # type: ignore[misc]
            session = store.register(1, "one", 60_000)
            term = store.campaign(session)
            broke = server.requests >= begin + at
            server.fault = lambda number, request: None
            assert term is not None
            assert {id: session_info.epoch for id, session_info in other.sessions().items()} == {1: session.epoch}
            assert other.controller() == (1, term.epoch)
            store.commit({}, {"/a": b""}, [], by=term)
            session.end()
            if not broke:
                break


def test_an_outage_is_over_after_the_time_limit_and_the_commit_that_failed_never_happens_later(
    server: ModelServer,
) -> None:
    with closing(open_store(timeout_s=2)) as one, closing(open_store()) as two:
        version = one.commit({}, {"/n": b"0"}, [])["/n"]
        late = list[object]()

        def swallow(number: int, request: object) -> str | None:
            late.append(request)
            server.down = True
            return "before"

        server.fault = swallow
        with pytest.raises(StorageFailed, match="does not answer"):
            one.commit({"/n": version}, {"/n": b"1"}, [])
        server.fault = lambda number, request: None
        server.start()
        assert one.read("/n")["/n"] == (b"0", version)
        assert two.read("/n")["/n"] == (b"0", version)
        with server.lock:  # the request comes in late, as from a connection that was cut
            server.answer(late[0], server.clients[0])
        assert two.read("/n")["/n"] == (b"0", version)
        assert one.commit({"/n": version}, {"/n": b"2"}, [])["/n"] > version


def test_a_session_that_zookeeper_expired_is_lost_though_kazoo_opens_another(server: ModelServer) -> None:
    with closing(open_store()) as store:
        session = store.register(1, "one", 60_000)
        term = store.campaign(session)
        store.commit({}, {"/a": b"1"}, [], by=term)
        server.expire(session.client._kazoo)
        assert session.lost
        for by in (session, term):
            with pytest.raises(SessionLost):
                store.commit({}, {"/a": b"2"}, [], by=by)
        assert store.sessions() == {}
        assert store.controller() is None


def test_a_lost_session_goes_before_a_conflict(server: ModelServer) -> None:
    with closing(open_store()) as store:
        session = store.register(1, "one", 60_000)
        server.end_session(session.client._kazoo.session)  # nobody has told it
        assert not session.lost
        with pytest.raises(SessionLost):
            store.commit({"/absent": 7}, {"/a": b""}, [], by=session)
        assert session.lost


def test_watches_outlive_connections_and_sessions(server: ModelServer) -> None:
    from threading import Event

    with closing(open_store()) as one, closing(open_store()) as two:
        woken = Event()
        two.watch(woken.set)
        for change in range(4):
            if change % 2:
                server.expire(two._client._kazoo)
            else:
                server.stop()
                server.start()
            assert woken.wait(60), "no call after the reconnection: something may have changed meanwhile"
            two._client._kazoo.handler.completion_queue.join()
            woken.clear()
            one.commit({}, {"/a": b"%d" % change}, [])
            assert woken.wait(60)
            two._client._kazoo.handler.callback_queue.join()
            two._client._kazoo.handler.completion_queue.join()
            woken.clear()


def test_round_trips_of_ten_thousand_partitions(server: ModelServer) -> None:
    """A commit is one request for who saw the latest one; reading is one per changed topic."""
    with closing(open_store()) as one, closing(open_store()) as two:
        topics = {f"/topics/{number:03}": b"[1,2,3]," * 800 for number in range(100)}
        begin = server.requests
        versions = one.commit(dict.fromkeys(topics), topics, [])
        assert server.requests == begin + 1
        one.commit(versions, topics, [])
        assert server.requests == begin + 2
        two.read("/")
        begin = server.requests
        two.read("/")
        assert server.requests == begin + 2, "a barrier, and what has changed: nothing"
        before = two.changes(0).version
        one.commit({}, {"/topics/007": b"new"}, [])
        begin = server.requests
        assert list(two.changes(before).entries) == ["/topics/007"]
        assert server.requests == begin + 4, "a barrier, what has changed, the topic, what has changed meanwhile"


def test_a_store_whose_nodes_were_deleted_fails_until_the_restart(server: ModelServer) -> None:
    with closing(open_store()) as store:
        store.commit({}, {"/a": b""}, [])
        with server.lock:
            for path in [path for path in server.nodes if path.startswith("/cluster")]:
                del server.nodes[path]
        with closing(open_store()) as fresh:
            fresh.commit({}, {"/b": b""}, [])
        with pytest.raises(StorageFailed, match="was deleted, or the servers' data was replaced"):
            store.read("/")
        with pytest.raises(StorageFailed, match="was deleted"):
            store.commit({}, {"/a": b""}, [])


@pytest.mark.parametrize("since", corners([0, 2, 3, 4, 700], 2))
def test_nodes_that_went_back_are_refused_whatever_was_committed_since(server: ModelServer, since: int) -> None:
    """3 commits are lost: fewer follow, as many, more, and more than the history has."""
    with closing(open_store()) as store:
        store.commit({}, {"/a": b"0"}, [])
        with server.lock:
            older = dict(server.nodes)
        for number in range(3):
            store.commit({}, {"/a": b"%d" % number}, [])
        server.stop()
        newest, server.nodes = server.nodes, older
        server.start()
        with closing(open_store()) as other:
            for number in range(since):
                other.commit({}, {"/b": b"%d" % number}, [])
            for call in (lambda: store.commit({}, {"/a": b"x"}, []), lambda: store.read("/"), lambda: store.changes(1)):
                with pytest.raises(StorageFailed, match=r"went back from commit 4, .* put back their newest data"):
                    call()
            for number in range(700):
                other.commit({}, {"/a": b"%d" % number}, [])
        with pytest.raises(StorageFailed, match="went back from commit 4"):
            store.read("/")
        server.stop()
        server.nodes = newest
        server.start()
        assert store.commit({}, {"/a": b"x"}, []) == {"/a": 5}


def test_changes_of_others_than_kqueue_are_named(server: ModelServer) -> None:
    with closing(open_store()) as store:
        store.commit({}, {"/a": b"1"}, [])
        with server.lock:
            del server.nodes["/cluster/kqueue/data/%2Fa"]
        assert store.commit({}, {"/a": b"2"}, [])["/a"] == 2, "the nodes are read again"
        with server.lock:
            node = server.nodes["/cluster/kqueue/last"]
            server.nodes["/cluster/kqueue/last"] = node._replace(data=b'{"format":2}', version=99)
        with pytest.raises(StorageFailed, match="expected format 1, found 2; a newer kqueue wrote it"):
            store.read("/")
        with pytest.raises(StorageFailed, match="expected format 1"):
            open_store()


def test_call_waits_for_another_within_the_limit(server: ModelServer) -> None:
    with closing(ZookeeperStore("model:2181", timeout_s=1)) as store:
        from concurrent.futures import ThreadPoolExecutor

        expected = r"model:2181 does not answer \(an earlier call still waits\): check that a majority"
        with store._lock, ThreadPoolExecutor(1) as pool, pytest.raises(StorageFailed, match=expected):
            pool.submit(store.read, "/").result()
        with pytest.raises(Conflict):
            store.commit({"/absent": 1}, {}, [])
