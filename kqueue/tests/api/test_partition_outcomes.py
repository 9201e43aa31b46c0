from __future__ import annotations

from kqueue.api.partition_outcomes import Started, outcomes_of
from kqueue.base.errors import Conflict, InvalidRequest, KqueueError, RequestTimedOut
from kqueue.base.promise import Promise
from kqueue.broker.cluster.partition_changes import Outcomes


def kinds(outcome: Started, count: int = 2) -> list[type[KqueueError] | None]:
    return [None if one is None else type(one) for one in outcomes_of(outcome, count, "late")]


def test_each_change_has_the_outcome_of_its_topic_or_its_own() -> None:
    done: Promise[Outcomes] = Promise()
    assert kinds(done) == [RequestTimedOut] * 2
    done.resolve([None, InvalidRequest("no")])
    assert kinds(done) == [None, InvalidRequest]
    failed: Promise[Outcomes] = Promise()
    failed.fail(Conflict("others write"))
    assert kinds(failed) == [Conflict] * 2
    assert kinds(InvalidRequest("no"), 1) == [InvalidRequest]
