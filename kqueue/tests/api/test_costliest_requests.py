"""The costliest request of every served API and version, derived from its schema: no turn of the
event loop is long.

What a turn costs is measured in calls of Python functions, which are the same on every machine;
`benchmarks/costliest.py` measures milliseconds and memory of a served broker. Both the limit of
items and the size of a slice are 100 times smaller than in a broker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from kqueue.api import handler_table, slices
from kqueue.api.handlers import fetch
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.broker.fetch import delayed_fetch
from kqueue.broker.produce import delayed_produce
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import Topic
from kqueue.schema import counted_reader, writer
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.costliest import LONG, TAGS, Body, Case, cases

ITEMS = 2000
SLICE_ITEMS = 10
CALLS_MAX = 6000
"""Of Python functions in one turn. Unsliced, the handlers took 5 to 60 for each item."""
SIZE = 1 << 20
SERVED = [
    pytest.param(row, version, marks=[] if version == row.versions[1] else pytest.mark.thorough)
    for row in handler_table.all_handlers()
    for version in range(row.versions[0], row.versions[1] + 1)
]
"""The newest version of each API, which has most fields; the others are thorough tests."""


class CallCounter:
    """Counts calls of Python functions while it is entered."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> CallCounter:
        self.count = 0
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: object, event: str, argument: object) -> None:
        if event == "call":
            self.count += 1


def world() -> tuple[SimulatedClient, Topic]:
    client = SimulatedClient(
        sim=Simulation(
            {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1, "kqueue.max.partitions": 50}
        )
    )
    topic = client.sim.topic("t", 2)
    client.produce("t", batch(b"a"))
    return client, topic


def longest_turn(
    client: SimulatedClient, row: handler_table.ApiHandler, version: int, body: bytes, items_max: int
) -> int:
    """Calls in the turn that took most, from the decoded request to the response."""
    request, _ = counted_reader(row.api.request_class, version)(memoryview(bytearray(body)), 0, items_max)
    waiting, responses, turn = client.sim.broker.scheduler.purgatory, list[Any](), CallCounter()
    with turn:
        try:
            outcome = row.handle(request, RequestContext(client.sim.broker, version, "tester", "/127.0.0.1"))
        except KqueueError as error:  # the dispatcher asks the table for a response then
            outcome = row.error_response(request, version, error)
    longest = turn.count
    if isinstance(outcome, DelayedOperation):
        waiting.add(
            outcome, responses.append, lambda error: responses.append(row.error_response(request, version, error))
        )
    elif outcome is not None:
        responses.append(outcome)
    while not responses and (waiting.ready or client.sim.jobs.run_all()):
        with turn:
            waiting.run_ready()
        longest = max(longest, turn.count)
    for response in responses:
        writer(row.api.response_class, version)(response, [])
    return longest


def name_of(value: Any) -> str:
    return value.api.name if isinstance(value, handler_table.ApiHandler) else str(value)


@pytest.mark.parametrize(("row", "version"), SERVED, ids=name_of)
def test_no_turn_is_long(row: handler_table.ApiHandler, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS", SLICE_ITEMS)
    monkeypatch.setattr(fetch, "SLICE_ITEMS", SLICE_ITEMS)
    monkeypatch.setattr(delayed_fetch, "PARTITIONS_AT_ONCE_MAX", SLICE_ITEMS)
    monkeypatch.setattr(delayed_produce, "PARTITIONS_AT_ONCE_MAX", SLICE_ITEMS)
    items_max = ITEMS // row.item_weight
    client, topic = world()
    slow: dict[Case, int] = {}
    for case in cases(row.api.request_class, version):
        if case.mode not in (LONG, TAGS):
            body = Body(
                row.api.request_class, version, case, size_max=SIZE, items_max=items_max - 3, topic_id=topic.id
            ).bytes()
            slow[case] = longest_turn(client, row, version, body, items_max)
    assert {str(case): calls for case, calls in slow.items() if calls > CALLS_MAX} == {}


@pytest.mark.parametrize(
    ("name", "version", "make"),
    [
        ("metadata", 12, lambda client: [client.sim.topic(f"many-{index}", 500) for index in range(4)]),
        ("describe_log_dirs", 4, lambda client: [client.sim.topic(f"many-{index}", 500) for index in range(4)]),
    ],
)
def test_a_small_request_for_everything_is_answered_in_slices(
    name: str, version: int, make: Callable[[SimulatedClient], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS", SLICE_ITEMS)
    client = SimulatedClient({"kqueue.max.partitions": 10_000})
    make(client)
    row = handler_table.load(name)
    request = row.api.request_class(topics=None)
    outcome = row.handle(request, RequestContext(client.sim.broker, version, "tester", "/127.0.0.1"))
    assert isinstance(outcome, DelayedOperation)
    assert sum(len(topic.partitions) for topic in getattr(client.sim.answer(outcome), "topics", [])) in (0, 2000)
