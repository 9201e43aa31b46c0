"""Ten thousand partitions: how many requests they take, and how long."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from compat_tests.zookeeper.server import Server
from kqueue.metadata.store import COMMIT_SIZE_MAX, VALUE_SIZE_MAX
from kqueue.metadata.zookeeper import ZookeeperStore

PINGS_MAX = 6
"""Requests beside a test's own: pings of two connections, and the questions for the count."""


class Cost:
    """What a step took: requests that the server received, and seconds."""

    requests = 0
    seconds = 0.0


def _received(server: Server) -> int:
    match = re.search(r"Received: (\d+)", server.command("srvr"))
    assert match is not None
    return int(match[1])


@contextmanager
def measured(server: Server, what: str, record_property: object) -> Iterator[Cost]:
    cost = Cost()
    begin, received = time.monotonic(), _received(server)
    yield cost
    cost.seconds = time.monotonic() - begin
    cost.requests = _received(server) - received
    print(f"{what}: at most {cost.requests} requests, {cost.seconds * 1000:.0f} ms")
    assert callable(record_property)
    record_property(what, [cost.requests, round(cost.seconds, 3)])


def record(count: int, epoch: int) -> bytes:
    """A topic's record, as `kqueue.replication.registrations` writes it."""
    rows = [[[n % 3, (n + 1) % 3, (n + 2) % 3], [n % 3, (n + 1) % 3], n % 3, epoch, epoch + n] for n in range(count)]
    return json.dumps({"id": "A" * 22, "configs": {}, "partitions": rows}, separators=(",", ":")).encode()


@pytest.mark.parametrize(("topics", "partitions"), [(1, 10_000), (100, 100), (1000, 10)])
def test_ten_thousand_partitions(own_server: Server, record_property: object, topics: int, partitions: int) -> None:
    names = [f"/topics/topic-{number:04}" for number in range(topics)]
    chroot = f"{own_server.address}/growth"
    with closing(ZookeeperStore(chroot)) as one, closing(ZookeeperStore(chroot)) as two:
        session = one.register(1, "one", 60_000)
        term = one.campaign(session)
        before = two.changes(0).version
        with measured(own_server, "creating all", record_property) as creation:
            versions = one.commit(dict.fromkeys(names), dict.fromkeys(names, record(partitions, 0)), [], by=term)
        with measured(own_server, "another broker sees them", record_property) as seen:
            changes = two.changes(before)
        assert len(changes.entries) == topics
        with measured(own_server, "a leader failed: all change", record_property) as failed:
            one.commit(versions, dict.fromkeys(names, record(partitions, 1)), [], by=term)
        two.changes(changes.version)
        with measured(own_server, "one in-sync set changed", record_property) as one_changed:
            version = two.changes(0).version
            one.commit({}, {names[0]: record(partitions, 2)}, [], by=session)
            last_changes = two.changes(version)
        assert list(last_changes.entries) == names[:1]
        with (
            measured(own_server, "a broker starts", record_property) as started,
            closing(ZookeeperStore(chroot)) as three,
        ):
            assert len(three.read("/topics/")) == topics
        assert creation.requests <= 1 + PINGS_MAX
        assert failed.requests <= 1 + PINGS_MAX
        assert seen.requests <= topics + 4 + PINGS_MAX
        assert one_changed.requests <= 2 + 1 + 4 + PINGS_MAX
        assert started.requests <= topics + 10 + PINGS_MAX
        for cost in (creation, failed, seen, started):
            assert cost.seconds < 20
        assert one_changed.seconds < 10


def test_a_commit_of_large_values_that_do_not_compress(own_server: Server, record_property: object) -> None:
    values = {f"/{n}": random.Random(n).randbytes(VALUE_SIZE_MAX) for n in range(COMMIT_SIZE_MAX // VALUE_SIZE_MAX)}
    with closing(ZookeeperStore(own_server.address)) as one, closing(ZookeeperStore(own_server.address)) as two:
        with measured(own_server, f"{len(values)} MiB in one commit", record_property) as cost:
            one.commit({}, values, [])
        assert cost.requests <= 2 * len(values) + 1 + PINGS_MAX
        assert {key: entry.value for key, entry in two.read("/").items()} == values
        one.commit({}, {}, list(values))
        assert two.read("/") == {}
