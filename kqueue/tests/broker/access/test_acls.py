"""Tests of `broker.access.acls`: what is stored, found again, shared, and denied while unknown."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import StorageFailed
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import run_to_end
from kqueue.base.timers import Timers
from kqueue.broker.access import acls
from kqueue.broker.access.acls import COMMIT_COUNT, PREFIX, Acls, stored_form
from kqueue.metadata.memory import MemoryStore
from kqueue.security.acls import AclBinding, AclFilter
from kqueue.security.authorizer import Action, AuthorizerSetup
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.security.acl_strategies import BINDINGS, acl, client
from kqueue.tests.steps import steps
from kqueue.tests.thorough import examples

READ_ORDERS = Action(AclOperation.READ, ResourceType.TOPIC, "orders")


def create(sim: Simulation, bindings: Sequence[AclBinding]) -> None:
    entries = {key: value for binding in bindings for key, value in stored_form(binding).items()}
    sim.result(sim.broker.security.acls.store(entries))


def delete(sim: Simulation, bindings: Sequence[AclBinding]) -> None:
    sim.result(sim.broker.security.acls.delete(bindings))


def known(sim: Simulation) -> set[AclBinding]:
    return set(run_to_end(sim.broker.security.acls.find(AclFilter())))


@given(st.lists(BINDINGS, max_size=6), st.lists(BINDINGS, max_size=6))
@settings(max_examples=examples(30))
def test_created_acls_outlive_a_restart_unless_deleted(created: list[AclBinding], deleted: list[AclBinding]) -> None:
    sim = Simulation()
    create(sim, created)
    create(sim, created)
    assert known(sim) == set(created)
    delete(sim, deleted)
    delete(sim, deleted)
    left = set(created) - set(deleted)
    assert known(sim) == left
    sim.stop()
    assert known(sim.restarted()) == left


def test_more_than_one_commit_holds_are_stored_by_several() -> None:
    sim = Simulation()
    many = [acl(name=f"topic-{number}") for number in range(COMMIT_COUNT * 2 + 1)]
    create(sim, many)
    assert known(sim) == set(many)
    delete(sim, many)
    assert known(sim) == set()
    assert sim.store.read(PREFIX) == {}


def test_a_store_that_fails_is_the_error_and_nothing_changes() -> None:
    store = FailingStore()
    sim = Simulation(store=store)
    store.failing = True
    promise = sim.broker.security.acls.store(stored_form(acl()))
    sim.settle()
    assert isinstance(promise.error, StorageFailed)
    assert known(sim) == set()
    store.failing = False
    create(sim, [acl()])
    assert known(sim) == {acl()}


def test_a_crash_in_a_long_change_leaves_whole_commits() -> None:
    class LastsFor2(MemoryStore):
        count = 0

        def commit(
            self, guards: Mapping[str, int | None], puts: Mapping[str, bytes], deletes: Iterable[str]
        ) -> Mapping[str, int]:
            if any(key.startswith(PREFIX) for key in puts):
                self.count += 1
                if self.count > 2:
                    raise StorageFailed("the power is cut")
            return super().commit(guards, puts, deletes)

    sim = Simulation(store=LastsFor2())
    many = [acl(name=f"topic-{number}") for number in range(COMMIT_COUNT * 3)]
    entries = {key: value for binding in many for key, value in stored_form(binding).items()}
    promise = sim.broker.security.acls.store(entries)
    sim.settle()
    assert isinstance(promise.error, StorageFailed)
    sim.stop()
    assert known(sim.restarted()) == set(many[: COMMIT_COUNT * 2])


def test_a_broker_does_not_start_while_an_entry_cannot_be_read() -> None:
    store = MemoryStore()
    store.commit({}, {f"{PREFIX}x": b"damaged"}, [])
    with pytest.raises(StorageFailed, match="the stored ACL b'damaged' can't be read"):
        Simulation(store=store)


def test_an_entry_of_another_broker_that_cannot_be_read_denies_until_it_is_gone() -> None:
    sim = Simulation()
    stored = sim.broker.security.acls
    create(sim, [acl()])
    authorizer, ann = StandardAuthorizer(AuthorizerSetup(stored.index)), client("User:ann")
    assert authorizer.authorize(ann, [READ_ORDERS]) == [True]
    newer = json.dumps({**json.loads(acl().to_json()), "operation": "LEVITATE"}).encode()
    sim.broker.metadata.cache.commit("test", {f"{PREFIX}x": newer}, lambda error: None)
    sim.settle()
    assert authorizer.authorize(ann, [READ_ORDERS]) == [False]
    sim.broker.metadata.cache.commit("test", {f"{PREFIX}x": None}, lambda error: None)
    sim.settle()
    assert authorizer.authorize(ann, [READ_ORDERS]) == [True]


def test_before_the_store_is_read_everything_is_denied() -> None:
    seen = []

    def look(broker: object) -> None:
        index = broker.security.acls.index  # type: ignore[attr-defined]
        asked = StandardAuthorizer(AuthorizerSetup(index, allow_everyone_if_no_acl_found=True))
        seen.append(asked.authorize(client("User:ann"), [READ_ORDERS])[0])

    sim = Simulation(before_start=look)
    asked = StandardAuthorizer(AuthorizerSetup(sim.broker.security.acls.index, allow_everyone_if_no_acl_found=True))
    assert [*seen, *asked.authorize(client("User:ann"), [READ_ORDERS])] == [False, True]


class Ticking(ManualClock):
    """A clock on which each look takes a millisecond."""

    def monotonic_ms(self) -> float:
        self.advance(1)
        return super().monotonic_ms()


def change(sim: Simulation, puts: Mapping[str, bytes | None]) -> None:
    """Change entries as another broker does, all in one refresh."""
    sim.broker.metadata.cache.commit("test", {PREFIX + key: value for key, value in puts.items()}, lambda error: None)
    sim.settle()


def test_many_changes_are_read_in_slices_and_take_effect_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "AT_ONCE_MAX", 10)
    sim, clock = Simulation(), Ticking()
    timers = Timers(clock)
    sliced = Acls(SliceQueue(timers, clock))
    sliced.load(sim.broker.metadata.cache)
    before = {acl(name=f"old-{number}") for number in range(5)}
    after = {acl(name=f"new-{number}") for number in range(500)}
    change(sim, {key: value for binding in before for key, value in stored_form(binding).items()})
    assert set(sliced.index) == before
    gone = {key: None for binding in before for key in stored_form(binding)}
    change(sim, {**gone, **{key: value for binding in after for key, value in stored_form(binding).items()}})
    change(sim, stored_form(acl(name="last")))
    version, turns = sliced.index.version, 0
    while timers.run_due(clock.monotonic_ms()) or len(sliced.index) != len(after) + 1:
        if sliced.index.version == version:
            assert set(sliced.index) == before, "none of them counts before the others"
            turns += 1
    assert turns > 3
    assert set(sliced.index) == {*after, acl(name="last")}
    assert sliced.index.is_complete


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Keep the collector, which goes through all of the tests' objects, out of what is measured."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class CountingClock(ManualClock):
    """Each look at it takes a millisecond."""

    def monotonic_ms(self) -> float:
        self.advance(1)
        return super().monotonic_ms()


@pytest.mark.usefixtures("without_collector")
def test_no_turn_is_long_where_very_many_acls_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "AT_ONCE_MAX", 100)
    clock = CountingClock()
    sim, timers = Simulation(), Timers(clock)
    sliced = Acls(SliceQueue(timers, clock))
    sliced.load(sim.broker.metadata.cache)
    many = [acl(name=f"topic-{number}") for number in range(2_000)]
    entries = {key: value for binding in many for key, value in stored_form(binding).items()}
    turns = [steps(lambda: sliced._changed(entries))]
    while len(sliced.index) < len(many):
        turns.append(steps(lambda: timers.run_due(clock.monotonic_ms())))
    assert len(turns) > 5
    assert max(turns) < 2 * sum(turns) / len(turns)


def test_an_entry_that_cannot_be_read_among_many_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "AT_ONCE_MAX", 1)
    sim = Simulation()
    index = sim.broker.security.acls.index
    change(sim, {**stored_form(acl()), "x": b"damaged"})
    sim.advance(100)
    assert (set(index), index.is_complete) == ({acl()}, False)
    change(sim, {**stored_form(acl(name="b")), "x": None})
    sim.advance(100)
    assert (set(index), index.is_complete) == ({acl(), acl(name="b")}, True)


def test_creation_of_many_acls_is_answered_once_they_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "AT_ONCE_MAX", 1)
    sim = Simulation()
    many = [acl(name=f"topic-{number}") for number in range(2 * COMMIT_COUNT)]
    create(sim, many)
    assert known(sim) == set(many)
    delete(sim, many)
    assert known(sim) == set()
