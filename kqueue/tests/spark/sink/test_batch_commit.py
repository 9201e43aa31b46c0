"""Exactly-once writes without Spark: after kills at any step and concurrent drivers each row is
written once.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.client import Client
from kqueue.spark.errors import OptionError
from kqueue.spark.sink.batch_commit import check_topic_of
from kqueue.spark.sink.journal import Journal
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.producer_pipeline import drop_idle_producers
from kqueue.testing import faults
from kqueue.tests.spark.sink.exactly_once import (
    QUERY,
    ROWS,
    Killed,
    after_calls,
    die,
    run_batch,
    watched,
)
from kqueue.tests.spark.sink.helpers import options_for, values_in
from kqueue.tests.thorough import corners


@pytest.mark.parametrize("stride", corners([1, 13], 13))
def test_retry_with_other_tasks_after_a_kill_at_any_step_writes_each_row_once(
    broker: kqueue.Broker, options: SinkOptions, stride: int
) -> None:
    """Before and after each call to a broker; the second try has other tasks, in another order."""
    expected: list[str] = []
    for step in itertools.count(step=stride):
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


def test_repeatedly_killed_batch_is_written_once(broker: kqueue.Broker, options: SinkOptions) -> None:
    """Nobody gets further than a few steps before the next kill, until one does."""
    for batch_id, stride in enumerate((11, 16)):
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
    assert values_in(broker, "out") == sorted(f"{batch_id}: {row}" for batch_id in range(2) for row in ROWS)


@contextlib.contextmanager
def held_up(options: SinkOptions, tasks: Sequence[Sequence[str]], moment: int) -> Iterator[None]:
    """A driver that does batch 1, stands still at one moment of it while the body runs, and then
    goes on as if nothing had been.
    """
    stopped, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        stopped.set()
        assert go_on.wait(60)

    def zombie() -> None:
        with contextlib.suppress(KqueueError):  # it may be told, or not; what counts is what it did
            run_batch(options, 1, tasks, watched(after_calls(moment, pause)))
        stopped.set()

    thread = threading.Thread(target=zombie)
    thread.start()
    try:
        assert stopped.wait(60)
        yield
    finally:
        go_on.set()
        thread.join(60)


def moments_of_a_batch(options: SinkOptions) -> int:
    """Does batch 0; returns how many moments it had."""
    calls: list[str] = []
    run_batch(options, 0, [ROWS[:60], ROWS[60:]], watched(lambda name, before: calls.append(name)))
    return len(calls)


@pytest.mark.parametrize("cut", corners([*range(0, 90, 5), *range(-14, 0)], 0, 45, -9, -2))
def test_driver_that_resumes_after_its_replacement_duplicates_nothing(
    broker: kqueue.Broker, options: SinkOptions, cut: int
) -> None:
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


@pytest.mark.parametrize("stride", corners([2, 6], 6))
def test_a_batch_that_another_driver_does_meanwhile_is_done(
    broker: kqueue.Broker, options: SinkOptions, stride: int
) -> None:
    """At any moment: what was staged is dropped then, which is no loss."""
    few = ROWS[:8]
    done: list[int] = []

    def do(batch_id: int) -> None:
        run_batch(options, batch_id, [few[::2], few[1::2]])
        done.append(batch_id)

    for moment in itertools.count(1, stride):  # after each call
        run_batch(options, moment, [few[:4], few[4:]], watched(after_calls(moment, partial(do, moment))))
        if done[-1:] != [moment]:
            break
    assert len(done) > 30 // stride
    assert values_in(broker, "out") == sorted(few * (len(done) + 1))


@pytest.mark.parametrize("first", corners(range(60, 85, 3), 66, 78))
@pytest.mark.parametrize("second", corners([76, 88, 96], 76, 96))
def test_batch_of_two_drivers_is_written_once_although_the_second_is_killed(
    broker: kqueue.Broker, options: SinkOptions, first: int, second: int
) -> None:
    moments = moments_of_a_batch(options)
    with held_up(options, [ROWS[:60], ROWS[60:]], moments * first // 100), contextlib.suppress(Killed):
        run_batch(options, 1, [ROWS[::-1][:50], ROWS[::-1][50:]], watched(after_calls(moments * second // 100, die)))
    run_batch(options, 1, [ROWS])
    run_batch(options, 2, [["after"]])
    assert values_in(broker, "out") == sorted([*ROWS, *ROWS, "after"])


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


def test_an_answer_that_was_lost_does_not_double_rows(broker: kqueue.Broker, options: SinkOptions) -> None:
    with faults(broker, seed=3) as chaos:
        chaos.drop_reply("Produce", times=None, probability=0.4)
        for batch_id in range(3):
            run_batch(options, batch_id, [[f"{batch_id}: {row}" for row in ROWS]])
    assert values_in(broker, "out") == sorted(f"{batch_id}: {row}" for batch_id in range(3) for row in ROWS)


@pytest.mark.parametrize("delivery", ["exactly-once", "transactional"])
def test_one_number_for_writes_to_two_topics_is_refused(broker: kqueue.Broker, delivery: str) -> None:
    """The second was taken for a repetition of the first, and left out without a word."""
    broker.create_topic("customers", 1)

    def check(topic: str | None, version: int) -> None:
        with Client(broker.bootstrap) as client:
            check_topic_of(client, QUERY, version, topic)

    check("out", 0)  # there is no journal yet
    for version in range(2):
        run_batch(options_for(broker, topic="out", delivery=delivery, stagingPartitions=1), version, [["x"]])
    for version in range(2):
        check("out", version)
        check(None, version)
        with pytest.raises(
            OptionError, match=r"txnVersion=\d or a later one to out, .* take a txnAppId for each topic"
        ):
            check("customers", version)
    check("customers", 2)
