"""The mirror of the ZooKeeper store: what is read belongs together, whatever is committed
meanwhile.
"""

from __future__ import annotations

import itertools
from contextlib import closing

import pytest

from kqueue.metadata.store import Entry
from kqueue.metadata.zookeeper import ZookeeperStore
from kqueue.tests.metadata.zookeeper_model import ModelServer, open_store, server

__all__ = ["server"]


def _values(store: ZookeeperStore) -> dict[str, bytes]:
    return {key: entry.value for key, entry in store.read("/").items()}


@pytest.mark.parametrize("large", [False, True])
def test_a_commit_at_any_request_of_a_read_is_seen_whole_or_not_at_all(server: ModelServer, large: bool) -> None:
    """Keys are put, deleted and created; `large`: so many that the reader reads all of them."""
    keys = ["/a", "/b", "/c", *(f"/{number:0400}" for number in range(60 if large else 0))]
    with closing(open_store()) as writer, closing(open_store()) as reader:
        writer.commit({}, dict.fromkeys(keys, b"0"), [])
        for at in itertools.count(1):
            here = server.requests
            before = {"/a": b"%d" % at, "/b": b"%d" % at}
            after = {"/a": b"%d!" % at, "/c": b"%d!" % at}
            writer.commit({}, before, [key for key in keys if key not in before])
            begin = server.requests

            def commit(
                number: int, request: object, begin: int = begin, at: int = at, after: dict[str, bytes] = after
            ) -> None:
                if number == begin + at:
                    server.fault = lambda number, request: None
                    writer.commit({}, after, ["/b"])
                    writer.commit({}, dict.fromkeys(keys[3:], b"%d!" % at), [])

            server.fault = commit
            seen = _values(reader)
            broke = server.requests > begin + at
            server.fault = lambda number, request: None
            seen_small = {key: value for key, value in seen.items() if len(key) == 2}
            assert seen_small in (before, after), (at, here)
            assert {value for key, value in seen.items() if len(key) > 2} <= set(after.values())
            assert _values(reader) == _values(writer)
            if not broke:
                break
        assert at > 5


def test_versions_are_numbers_of_commits_also_of_a_key_that_was_made_again(server: ModelServer) -> None:
    with closing(open_store()) as store, closing(open_store()) as other:
        assert store.commit({}, {"/a": b"1", "/b": b"1"}, []) == {"/a": 1, "/b": 1}
        store.commit({}, {}, ["/a"])
        assert other.commit({}, {"/a": b"1"}, []) == {"/a": 3}
        assert store.read("/") == {"/a": Entry(b"1", 3), "/b": Entry(b"1", 1)}
        assert server.nodes["/cluster/kqueue/data/%2Fa"].version == 0, "ZooKeeper's own count began again"
