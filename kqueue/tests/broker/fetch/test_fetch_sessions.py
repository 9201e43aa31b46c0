"""Fetch sessions: epochs, what an answer tells, turns, room and eviction; and a model of the
client's side.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kqueue.base.errors import FetchSessionNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from kqueue.broker.fetch import fetch_sessions
from kqueue.broker.fetch.fetch_sessions import (
    EPOCH_MAX,
    EVICTABLE_AFTER_MS,
    FetchContext,
    FetchSessions,
    PartitionFetch,
)
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples


def want(index: int, offset: int = 0, topic: str | bytes = "t") -> PartitionFetch:
    return PartitionFetch(topic, index, offset, 1000)


def make(slots: int = 10) -> tuple[FetchSessions, ManualClock]:
    clock = ManualClock()
    return FetchSessions(slots, clock, random.Random(1)), clock


def begin(sessions: FetchSessions, count: int = 2, *, high_watermark: int = 5, by_id: bool = False) -> int:
    context = sessions.open(0, 0, [want(index) for index in range(count)], by_id=by_id)
    for fetch in context.fetches:
        assert context.must_respond(fetch, high_watermark, 0, has_records=False, always=False)
    return context.finish()


def session_response(
    context: FetchContext, *, high_watermark: int = 5, records: set[int] | None = None, errors: set[int] | None = None
) -> list[int]:
    context.check()
    return [
        fetch.index
        for fetch in context.fetches
        if context.must_respond(
            fetch,
            high_watermark,
            0,
            has_records=fetch.index in (records or ()),
            always=fetch.index in (errors or ()),
        )
    ]


def test_a_full_fetch_without_a_session_returns_all_and_stores_nothing() -> None:
    sessions, _ = make()
    context = sessions.open(0, -1, [want(0), want(1)], by_id=False)
    assert session_response(context) == [0, 1]
    assert context.finish() == 0
    assert len(sessions) == 0


def test_an_incremental_fetch_returns_only_changes() -> None:
    sessions, _ = make()
    id = begin(sessions, 3)
    assert id > 0
    assert session_response(sessions.open(id, 1, [], by_id=False)) == []
    assert session_response(sessions.open(id, 2, [], by_id=False), records={1}) == [1]
    assert session_response(sessions.open(id, 3, [], by_id=False), high_watermark=6) == [0, 2, 1]
    assert session_response(sessions.open(id, 4, [], by_id=False), high_watermark=6) == []


def test_a_moved_log_start_is_reported() -> None:
    sessions, _ = make()
    id = begin(sessions, 1)
    context = sessions.open(id, 1, [], by_id=False)
    assert context.must_respond(context.fetches[0], 5, 3, has_records=False, always=False)
    context = sessions.open(id, 2, [], by_id=False)
    assert not context.must_respond(context.fetches[0], 5, 3, has_records=False, always=False)


def test_an_error_is_reported_while_it_lasts_and_its_end_is_reported_once() -> None:
    sessions, _ = make()
    id = begin(sessions)
    for epoch in (1, 2):
        assert session_response(sessions.open(id, epoch, [], by_id=False), errors={0}) == [0]
    assert session_response(sessions.open(id, 3, [], by_id=False)) == [0]
    assert session_response(sessions.open(id, 4, [], by_id=False)) == []


def test_a_partition_that_gave_records_goes_to_the_end_of_the_line() -> None:
    sessions, _ = make()
    id = begin(sessions, 3)
    session_response(sessions.open(id, 1, [], by_id=False), records={0})
    assert [fetch.index for fetch in sessions.open(id, 2, [], by_id=False).fetches] == [1, 2, 0]


def test_requests_change_add_and_forget_partitions() -> None:
    sessions, _ = make()
    id = begin(sessions, 3)
    changed = PartitionFetch("t", 1, 77, 9, leader_epoch=4, last_fetched_epoch=3)
    context = sessions.open(id, 1, [changed, want(9)], [("t", 0), ("t", 55)], by_id=False)
    assert [fetch.key for fetch in context.fetches] == [("t", 1), ("t", 2), ("t", 9)]
    one = context.fetches[0]
    assert (one.offset, one.max_bytes, one.leader_epoch, one.last_fetched_epoch, one.high_watermark) == (77, 9, 4, 3, 5)
    assert session_response(context) == [9]
    assert context.finish() == id
    assert sessions.partition_count == 3


def test_a_session_that_forgets_everything_ends() -> None:
    sessions, _ = make()
    id = begin(sessions, 1)
    context = sessions.open(id, 1, [], [("t", 0)], by_id=False)
    assert context.fetches == []
    assert context.finish() == 0
    assert (len(sessions), sessions.partition_count) == (0, 0)


def test_wrong_ids_and_epochs_are_refused() -> None:
    sessions, _ = make()
    id = begin(sessions)
    with pytest.raises(FetchSessionNotFound):
        sessions.open(id + 1, 1, [], by_id=False)
    for epoch in (2, EPOCH_MAX, -7):
        with pytest.raises(InvalidFetchSessionEpoch, match="expected epoch 1"):
            sessions.open(id, epoch, [], by_id=False)
    with pytest.raises(FetchSessionTopicIdError):
        sessions.open(id, 1, [], by_id=True)
    assert session_response(sessions.open(id, 1, [], by_id=False)) == []


def test_a_request_that_another_overtook_is_refused_when_it_answers() -> None:
    sessions, _ = make()
    id = begin(sessions)
    slow = sessions.open(id, 1, [], by_id=False)
    quick = sessions.open(id, 2, [], by_id=False)
    with pytest.raises(InvalidFetchSessionEpoch):
        slow.check()
    quick.check()


def test_epochs_wrap_to_one() -> None:
    sessions, _ = make()
    id = begin(sessions)
    sessions._sessions[id].epoch = EPOCH_MAX
    sessions.open(id, EPOCH_MAX, [], by_id=False)
    sessions.open(id, 1, [], by_id=False)


@for_each("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(epoch: int) -> None:
    sessions, _ = make()
    id = begin(sessions)
    sessions.open(id, epoch, [want(0)], by_id=False)
    assert len(sessions) == 0
    with pytest.raises(FetchSessionNotFound):
        sessions.open(id, 1, [], by_id=False)


def test_without_slots_or_partitions_there_is_no_session() -> None:
    sessions, _ = make(slots=0)
    assert begin(sessions) == 0
    sessions, _ = make()
    assert begin(sessions, 0) == 0


def test_a_young_session_is_not_evicted() -> None:
    sessions, clock = make(slots=1)
    id = begin(sessions, 1)
    clock.advance(EVICTABLE_AFTER_MS)
    assert begin(sessions, 50) == 0
    sessions.open(id, 1, [], by_id=False)


def test_a_session_unused_for_long_gives_way_to_a_smaller_one() -> None:
    sessions, clock = make(slots=1)
    begin(sessions, 5)
    clock.advance(EVICTABLE_AFTER_MS + 1)
    assert begin(sessions, 1) > 0
    assert (len(sessions), sessions.partition_count) == (1, 1)


def test_an_old_session_in_use_gives_way_to_a_larger_one_only_the_smallest_first() -> None:
    sessions, clock = make(slots=2)
    small, large = begin(sessions, 2), begin(sessions, 4)
    clock.advance(EVICTABLE_AFTER_MS + 1)
    for id in (small, large):
        sessions.open(id, 1, [], by_id=False)
    assert begin(sessions, 1) == 0
    assert begin(sessions, 2) == 0
    assert begin(sessions, 3) > 0
    with pytest.raises(FetchSessionNotFound):
        sessions.open(small, 2, [], by_id=False)
    sessions.open(large, 2, [], by_id=False)


def test_all_sessions_together_remember_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    sessions, _ = make()
    id = begin(sessions, 6)
    assert begin(sessions, 5) == 0
    context = sessions.open(id, 1, [want(index) for index in range(6, 11)], by_id=False)
    assert session_response(context) == list(range(11))  # served, but as the last of its session
    assert context.finish() == 0
    assert sessions.partition_count == 0


def test_stale_sessions_give_room_for_the_partitions_of_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    sessions, clock = make()
    stale, also_stale = begin(sessions, 5), begin(sessions, 5)
    clock.advance(EVICTABLE_AFTER_MS)
    assert begin(sessions, 1) == 0
    clock.advance(1)
    assert begin(sessions, 4) > 0
    assert sessions.partition_count == 9
    with pytest.raises(FetchSessionNotFound):
        sessions.open(stale, 1, [], by_id=False)
    sessions.open(also_stale, 1, [], by_id=False)


def test_names_that_no_topic_can_have_are_not_remembered() -> None:
    sessions, _ = make()
    context = sessions.open(0, 0, [PartitionFetch("n" * 250, 0, 0, 100)], by_id=False)
    assert context.finish() == 0
    id = begin(sessions, 1)
    context = sessions.open(id, 1, [PartitionFetch("n" * 250, 0, 0, 100)], by_id=False)
    assert len(context.fetches) == 2, "it is answered, as the last of its session"
    assert context.finish() == 0
    assert sessions.partition_count == 0


class ClientAndBroker(RuleBasedStateMachine):
    """A client that keeps what it was told knows, after each answer, the high watermark of every
    partition it fetches.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sessions, _ = make(slots=2)
        self.truth = dict.fromkeys(range(4), 0)
        self.id = 0
        self.epoch = 0
        self.fetching: list[int] = []
        self.known: dict[int, int] = {}

    def answer(self, context: FetchContext) -> None:
        context.check()
        assert sorted(fetch.index for fetch in context.fetches) == sorted(self.fetching)
        for fetch in context.fetches:
            mark = self.truth[fetch.index]
            if context.must_respond(fetch, mark, 0, has_records=mark % 2 == 1, always=False):
                self.known[fetch.index] = mark
        self.id = context.finish()
        self.epoch = self.epoch + 1 if self.id else 0
        assert {index: self.known[index] for index in self.fetching} == {
            index: self.truth[index] for index in self.fetching
        }

    @rule(index=st.integers(0, 3), by=st.integers(1, 3))
    def append(self, index: int, by: int) -> None:
        self.truth[index] += by

    @rule(indexes=st.sets(st.integers(0, 3)))
    def fetch_fully(self, indexes: set[int]) -> None:
        self.fetching, self.known, self.epoch = sorted(indexes), {}, 0
        self.answer(self.sessions.open(self.id, 0, [want(index) for index in indexes], by_id=False))

    @precondition(lambda self: self.id)
    @rule(add=st.sets(st.integers(0, 3)), forget=st.sets(st.integers(0, 3)))
    def fetch_on(self, add: set[int], forget: set[int]) -> None:
        self.fetching = sorted((set(self.fetching) | add) - forget)
        fetches = [want(index) for index in add]
        self.answer(self.sessions.open(self.id, self.epoch, fetches, [("t", index) for index in forget], by_id=False))

    @rule()
    def another_client_comes(self) -> None:
        begin(self.sessions, 1)

    @invariant()
    def counts_are_right(self) -> None:
        assert self.sessions.partition_count == sum(
            len(session.partitions) for session in self.sessions._sessions.values()
        )
        assert len(self.sessions) <= 2


TestClientAndBroker = ClientAndBroker.TestCase
TestClientAndBroker.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
