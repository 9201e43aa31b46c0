from __future__ import annotations

import kqueue
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.tests.spark.sink.exactly_once import QUERY, ROWS, run_batch
from kqueue.tests.spark.sink.helpers import rows_of, values_in


def test_nothing_shows_before_the_commit(broker: kqueue.Broker, options: SinkOptions) -> None:
    outcome = stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)])
    assert outcome.staged
    assert values_in(broker, "out") == []


def test_a_repeated_task_of_a_batch_that_is_done_stages_nothing(broker: kqueue.Broker, options: SinkOptions) -> None:
    run_batch(options, 0, [ROWS])
    assert stage_rows(options, BatchIdentity(QUERY, 0, 0), [rows_of(ROWS)]).staged is None
    assert values_in(broker, "out") == sorted(ROWS)
