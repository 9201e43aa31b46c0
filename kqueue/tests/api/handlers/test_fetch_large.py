"""A fetch of very many partitions is read and answered in slices, with the same answer."""

from __future__ import annotations

import pytest

from kqueue.api import slices
from kqueue.api.handlers import fetch as fetch_api
from kqueue.tests.api.fetch_client import append, fetch, parts, request, values, want
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.fetch import FetchTopic

COUNT = 100


@pytest.fixture
def asker(monkeypatch: pytest.MonkeyPatch) -> SimulatedClient:
    monkeypatch.setattr(fetch_api, "SLICE_ITEMS", 20)
    monkeypatch.setattr(slices, "SLICE_ITEMS", 4)
    asker = SimulatedClient()
    asker.sim.topic("t", COUNT)
    return asker


def wanted(count: int = COUNT) -> list:  # type: ignore[type-arg]
    return [want(index) for index in range(count)]


@pytest.mark.parametrize("version", [3, 12, 18])
def test_gives_what_an_unsliced_fetch_gives(
    asker: SimulatedClient, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (0, 57, 99):
        asker.produce("t", batch(b"%d" % index), partition=index)
    asked = [*wanted(), want(COUNT)]
    sliced = fetch(asker, version, *asked)
    monkeypatch.setattr(fetch_api, "SLICE_ITEMS", 1000)
    assert sliced == fetch(asker, version, *asked)
    assert [values(part) for part in parts(sliced) if part.records] == [[b"0"], [b"57"], [b"99"]]
    assert [part.partition_index for part in parts(sliced) if part.error_code] == [COUNT]


def test_limits_hold_over_all_slices(asker: SimulatedClient) -> None:
    for index in range(COUNT):
        asker.produce("t", batch(b"x" * 100), partition=index)
    size = len(batch(b"x" * 100))
    response = fetch(asker, 12, *wanted(), max_bytes=10 * size)
    assert [index for index, part in enumerate(parts(response)) if part.records] == list(range(10))


def test_reads_one_slice_a_turn(asker: SimulatedClient) -> None:
    started = asker.start(request(asker, 12, *wanted()), 12)
    turns = 0
    while started.response is None:
        assert asker.sim.broker.purgatory.run_ready()
        turns += 1
    assert turns >= COUNT // (fetch_api.PARTITIONS_PER_STEP * 4)


def test_what_is_appended_between_slices_answers_it(asker: SimulatedClient) -> None:
    started = asker.start(request(asker, 12, *wanted(), max_wait_ms=10_000), 12)
    assert asker.sim.broker.purgatory.ready
    append(asker, batch(b"between"))
    asker.sim.settle()
    assert [values(part) for part in parts(started.response) if part.records] == [[b"between"]]


def test_waits_for_more_as_any_fetch(asker: SimulatedClient) -> None:
    started = asker.start(request(asker, 12, *wanted(), max_wait_ms=10_000), 12)
    asker.sim.settle()
    assert started.response is None
    asker.produce("t", batch(b"new"), partition=77)
    assert [values(part) for part in parts(started.response) if part.records] == [[b"new"]]


def test_unknown_partitions_cost_no_traceback(asker: SimulatedClient) -> None:
    """An exception with its traceback holds the frames of the pass, and with them every result, in
    a reference cycle.
    """
    asked = request(asker, 12, *wanted())
    asked.topics += [FetchTopic(topic=f"nobody-{index}", partitions=[want()]) for index in range(50)]
    response = asker.ask(asked, 12)
    assert [part.error_code for part in parts(response)].count(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 50
