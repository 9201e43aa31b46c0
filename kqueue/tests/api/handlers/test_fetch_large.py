"""A fetch of very many partitions is read and answered in slices, with the same answer."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.api import slices
from kqueue.api.handlers import fetch as fetch_api
from kqueue.broker.fetch import delayed_fetch
from kqueue.log.manager import LogManager
from kqueue.tests.api.fetch_client import append, fetch, parts, request, values, want
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchTopic

COUNT = 100


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> SimulatedClient:
    monkeypatch.setattr(delayed_fetch, "PARTITIONS_AT_ONCE_MAX", 20)
    monkeypatch.setattr(fetch_api, "SLICE_ITEMS", 20)
    monkeypatch.setattr(slices, "SLICE_ITEMS", 4)
    client = SimulatedClient()
    client.sim.topic("t", COUNT)
    return client


def fetch_partitions(count: int = COUNT) -> list:  # type: ignore[type-arg]
    return [want(index) for index in range(count)]


@pytest.mark.parametrize("version", [3, 12, 18])
def test_gives_what_an_unsliced_fetch_gives(
    client: SimulatedClient, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (0, 57, 99):
        client.produce("t", batch(b"%d" % index), partition=index)
    requested = [*fetch_partitions(), want(COUNT)]
    sliced = fetch(client, version, *requested)
    monkeypatch.setattr(delayed_fetch, "PARTITIONS_AT_ONCE_MAX", 1000)
    monkeypatch.setattr(fetch_api, "SLICE_ITEMS", 1000)
    assert sliced == fetch(client, version, *requested)
    assert [values(part) for part in parts(sliced) if part.records] == [[b"0"], [b"57"], [b"99"]]
    assert [part.partition_index for part in parts(sliced) if part.error_code] == [COUNT]


def test_limits_hold_over_all_slices(client: SimulatedClient) -> None:
    for index in range(COUNT):
        client.produce("t", batch(b"x" * 100), partition=index)
    size = len(batch(b"x" * 100))
    response = fetch(client, 12, *fetch_partitions(), max_bytes=10 * size)
    assert [index for index, part in enumerate(parts(response)) if part.records] == list(range(10))


def test_reads_one_slice_a_turn(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, *fetch_partitions()), 12)
    turns = 0
    while started.response is None:
        assert client.sim.broker.scheduler.purgatory.run_ready()
        turns += 1
    assert turns >= COUNT // (delayed_fetch.PARTITIONS_PER_STEP * 4)


@pytest.mark.parametrize("version", [3, 11, 18])
def test_many_closed_logs_are_opened_in_several_turns(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """As after a start; other clients are served between the turns."""
    client = SimulatedClient()
    topic = client.sim.topic("t", 50)
    opened = LogManager.open

    def slow(self: LogManager, *args: Any, **kwargs: Any) -> Any:
        client.sim.clock.advance(2)
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(LogManager, "open", slow)
    started = client.start(request(client, version, *fetch_partitions(50)), version)
    assert started.response is None
    assert 0 < sum(partition.is_open for partition in topic.partitions) < 20
    client.sim.settle()
    assert {part.error_code for part in parts(started.response)} == {0}
    assert client.start(request(client, version, *fetch_partitions(50)), version).response is not None, "one turn"


def test_append_between_slices_completes_the_fetch(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, *fetch_partitions(), max_wait_ms=10_000), 12)
    assert client.sim.broker.scheduler.purgatory.ready
    append(client, batch(b"between"))
    client.sim.settle()
    assert [values(part) for part in parts(started.response) if part.records] == [[b"between"]]


def test_waits_for_more_as_any_fetch(client: SimulatedClient) -> None:
    started = client.start(request(client, 12, *fetch_partitions(), max_wait_ms=10_000), 12)
    client.sim.settle()
    assert started.response is None
    client.produce("t", batch(b"new"), partition=77)
    assert [values(part) for part in parts(started.response) if part.records] == [[b"new"]]


def test_unknown_partitions_cost_no_traceback(client: SimulatedClient) -> None:
    """An exception with its traceback holds the frames of the pass, and with them every result, in
    a reference cycle.
    """
    requested = request(client, 12, *fetch_partitions())
    requested.topics += [FetchTopic(topic=f"nobody-{index}", partitions=[want()]) for index in range(50)]
    response = client.ask(requested, 12)
    assert [part.error_code for part in parts(response)].count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 50
