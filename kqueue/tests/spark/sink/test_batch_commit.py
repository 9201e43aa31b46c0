"""Exactly once, with no Spark: whoever is killed, wherever, and whoever comes back from the dead,
each row stands in its topic once.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.client import Client, ClientOptions, TopicPartition
from kqueue.spark.errors import StagingLost
from kqueue.spark.sink import batch_commit, batch_copy, producer_pipeline
from kqueue.spark.sink.journal import Journal, StagedBatch
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.producer_pipeline import drop_idle_producers
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.testing import faults
from kqueue.tests.spark.sink.helpers import records_in, rows_of, values_in

QUERY = "3f1c"
CALLS = ("metadata", "offsets", "fetch", "init_producer", "produce", "create_topics", "delete_records")
ROWS = [f"row {number:03}" for number in range(120)]


class Killed(BaseException):
    """As if the process were gone: nobody catches it."""


class WatchedClient(Client):
    """Tells before and after each call: ``watch("produce", True)``."""

    watch: Callable[[str, bool], None]

    def clone(self) -> WatchedClient:
        return watched(self.watch)(self.options)  # type: ignore[return-value]

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.watch(name, True)
            answer = found(*arguments, **keywords)
            self.watch(name, False)
            return answer

        return call


def watched(watch: Callable[[str, bool], None]) -> Callable[[ClientOptions], Client]:
    def connect(options: ClientOptions) -> Client:
        client = WatchedClient(options)
        client.watch = watch
        return client

    return connect


def run_batch(
    options: SinkOptions,
    batch_id: int,
    tasks: Sequence[Sequence[str]],
    connect: Callable[[ClientOptions], Client] = Client,
) -> None:
    """What Spark does for one micro-batch: its tasks, then the commit."""
    staged: list[StagedBatch] | None = []
    for number, values in enumerate(tasks):
        outcome = stage_rows(
            options, BatchIdentity(QUERY, batch_id, number), [rows_of(values)] if values else [], connect
        )
        staged = None if outcome.staged is None or staged is None else [*staged, *outcome.staged]
    with connect(options.client) as client:
        batch_commit.commit(client, QUERY, batch_id, staged)


def after_calls(number: int, then: Callable[[], None]) -> Callable[[str, bool], None]:
    """A watch that does something at one moment, before or after a call: the moments are numbered
    from 0 on.
    """
    moments = itertools.count()

    def watch(name: str, before: bool) -> None:
        if next(moments) == number:
            then()

    return watch


def die() -> None:
    raise Killed


def test_a_kill_at_each_step_and_another_try_that_splits_the_rows_otherwise(
    broker: kqueue.Broker, options: SinkOptions
) -> None:
    """Before and after each call to a broker; the second try has other tasks, in another order."""
    expected: list[str] = []
    for step in itertools.count():
        mine = [f"{step:03} {row}" for row in ROWS]
        expected += mine
        try:
            run_batch(options, step, [mine[:60], mine[60:]], watched(after_calls(step, die)))
        except Killed:
            drop_idle_producers()
            run_batch(options, step, [mine[::-2], [], mine[-2::-2]])
        else:
            break
    assert step > 80
    assert values_in(broker, "out") == sorted(expected)


def test_kills_of_each_try_after_the_other(broker: kqueue.Broker, options: SinkOptions) -> None:
    """Nobody gets further than a few steps before the next kill, until one does."""
    for batch_id, stride in enumerate((7, 11, 16)):
        mine = [f"{batch_id}: {row}" for row in ROWS]
        tries = 0
        for limit in itertools.count(stride, stride):
            tries += 1
            drop_idle_producers()
            try:
                run_batch(options, batch_id, [mine[tries % 7 :], mine[: tries % 7]], watched(after_calls(limit, die)))
            except Killed:
                continue
            break
        assert tries > 2
    assert values_in(broker, "out") == sorted(f"{batch_id}: {row}" for batch_id in range(3) for row in ROWS)


@contextlib.contextmanager
def held_up(options: SinkOptions, tasks: Sequence[Sequence[str]], moment: int) -> Iterator[None]:
    """A driver that does batch 1, stands still at one moment of it while the body runs, and then
    goes on as if nothing had been.
    """
    stopped, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        stopped.set()
        assert go_on.wait(30)

    def zombie() -> None:
        with contextlib.suppress(KqueueError):  # it may be told, or not; what counts is what it did
            run_batch(options, 1, tasks, watched(after_calls(moment, pause)))
        stopped.set()

    thread = threading.Thread(target=zombie)
    thread.start()
    try:
        assert stopped.wait(30)
        yield
    finally:
        go_on.set()
        thread.join(30)


def moments_of_a_batch(options: SinkOptions) -> int:
    """Does batch 0; returns how many moments it had."""
    calls: list[str] = []
    run_batch(options, 0, [ROWS[:60], ROWS[60:]], watched(lambda name, before: calls.append(name)))
    return len(calls)


@pytest.mark.parametrize("cut", [*range(0, 90, 5), *range(-14, 0)])
def test_a_driver_that_was_thought_dead(broker: kqueue.Broker, options: SinkOptions, cut: int) -> None:
    """It stops at some percent of its way, or shortly before its end; another does the batch and
    the next one meanwhile.
    """
    moments = moments_of_a_batch(options)
    with held_up(
        options,
        [ROWS[:60], ROWS[60:]],
        moments * cut // 100 if cut >= 0 else moments + cut,
    ):
        run_batch(options, 1, [ROWS[::2], ROWS[1::2]])
        run_batch(options, 2, [["last"]])
    run_batch(options, 3, [["after"]])
    assert values_in(broker, "out") == sorted([*ROWS, *ROWS, "last", "after"])


@pytest.mark.parametrize("first", range(60, 85, 3))
@pytest.mark.parametrize("second", [76, 88, 96])
def test_two_drivers_of_one_batch_and_the_second_is_killed(
    broker: kqueue.Broker, options: SinkOptions, first: int, second: int
) -> None:
    moments = moments_of_a_batch(options)
    with held_up(options, [ROWS[:60], ROWS[60:]], moments * first // 100), contextlib.suppress(Killed):
        run_batch(options, 1, [ROWS[::-1][:50], ROWS[::-1][50:]], watched(after_calls(moments * second // 100, die)))
    run_batch(options, 1, [ROWS])
    run_batch(options, 2, [["after"]])
    assert values_in(broker, "out") == sorted([*ROWS, *ROWS, "after"])


@pytest.mark.parametrize("held_bytes", [1, 1_000, 10_000_000])
@pytest.mark.parametrize("fetch_bytes", [1, 1_000])
def test_each_tasks_rows_keep_their_order_however_they_lie(
    broker: kqueue.Broker, options: SinkOptions, monkeypatch: pytest.MonkeyPatch, held_bytes: int, fetch_bytes: int
) -> None:
    monkeypatch.setattr(batch_copy, "HELD_BYTES_MAX", held_bytes)
    monkeypatch.setattr(batch_copy, "STAGING_FETCH_BYTES", fetch_bytes)
    monkeypatch.setattr(producer_pipeline, "ROUND_BYTES_MAX", 1_000)
    tasks = [[f"{task} {row}" for row in ROWS] for task in range(3)]
    run_batch(options, 0, tasks)
    found = records_in(broker, "out")
    assert sorted((one.value or b"").decode() for part in found.values() for one in part) == sorted(
        itertools.chain(*tasks)
    )
    for part, task in itertools.product(found.values(), "012"):
        mine = [one.value for one in part if (one.value or b"").startswith(task.encode())]
        assert mine == sorted(mine, key=lambda value: value or b"")


def test_nothing_shows_before_the_commit(broker: kqueue.Broker, options: SinkOptions) -> None:
    outcome = stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
    assert outcome.staged
    assert values_in(broker, "out") == []


def test_a_batch_without_rows_leaves_no_entry(broker: kqueue.Broker, options: SinkOptions) -> None:
    run_batch(options, 0, [[], []])
    with Client(options.client) as client:
        assert Journal(client, QUERY).read().done == -1
    run_batch(options, 1, [["x"]])
    assert values_in(broker, "out") == ["x"]


def test_staging_partitions_are_cleared_and_the_journal_stays_short(
    broker: kqueue.Broker, options: SinkOptions
) -> None:
    for batch_id in range(5):
        run_batch(options, batch_id, [ROWS[:60], ROWS[60:]])
    assert values_in(broker, "_kqueue-sink-" + QUERY)[1:] == []
    with Client(options.client) as client:
        state = Journal(client, QUERY).read()
    assert state.done == 4
    assert sum(state.sequences.values()) == 5 * len(ROWS)


def test_one_producer_writes_all_batches_and_its_sequences_go_on(broker: kqueue.Broker, options: SinkOptions) -> None:
    ids = set()
    for batch_id in range(3):
        run_batch(options, batch_id, [ROWS])
        with Client(options.client) as client:
            ids.add(Journal(client, QUERY).read().producer)
    assert len(ids) == 1


def test_what_was_staged_and_is_gone_is_told(
    broker: kqueue.Broker, options: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
    with Client(options.client) as client:
        client.delete_records(
            {TopicPartition("_kqueue-sink-" + QUERY, staging_partition): -1 for staging_partition in (1, 2)}
        )
        with pytest.raises(
            StagingLost, match=r"_kqueue-sink-3f1c-1: what was staged at 0 is gone, by retention or by hand; the rows"
        ):
            batch_commit.commit(client, QUERY, 0, outcome.staged)


def test_an_answer_that_was_lost_does_not_double_rows(broker: kqueue.Broker, options: SinkOptions) -> None:
    with faults(broker, seed=3) as chaos:
        chaos.drop_reply("Produce", times=None, probability=0.4)
        for batch_id in range(3):
            run_batch(options, batch_id, [[f"{batch_id}: {row}" for row in ROWS]])
    assert values_in(broker, "out") == sorted(f"{batch_id}: {row}" for batch_id in range(3) for row in ROWS)


def test_a_topic_that_is_no_staging_topic_is_left_alone(broker: kqueue.Broker, options: SinkOptions) -> None:
    broker.create_topic("_kqueue-sink-" + QUERY)
    with pytest.raises(StagingLost, match="is no staging topic"):
        run_batch(options, 0, [["x"]])
