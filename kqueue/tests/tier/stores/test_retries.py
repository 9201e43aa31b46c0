"""Which calls are repeated, when, and how a store that is away is left alone."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.tier_faults import FaultyTierStore, TierFault, expired, lost_answer, unavailable
from kqueue.testing.tier_store_checks import check_tier_store
from kqueue.tests.tables import for_each
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores import retries
from kqueue.tier.stores.circuit import CircuitState
from kqueue.tier.stores.contract import ObjectEntry, TierStore
from kqueue.tier.stores.memory import MemoryTierStore
from kqueue.tier.stores.retries import RetryingStore, RetryPolicy

POLICY = RetryPolicy(attempts_max=4, delay_ms=100, delay_max_ms=300, deadline_ms=5_000, failures_max=6, open_ms=60_000)


class Setup:
    """A faulty store with retries, whose sleeps advance a clock."""

    def __init__(self, policy: RetryPolicy = POLICY, inner: TierStore | None = None) -> None:
        self.clock = ManualClock()
        self.faulty = FaultyTierStore(inner or MemoryTierStore())
        self.sleeps: list[float] = []
        self.store = RetryingStore(self.faulty, policy, clock=self.clock, rng=random.Random(1), sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.clock.advance(seconds * 1000)

    def called(self) -> list[str]:
        operations = [call.operation for call in self.faulty.calls]
        self.faulty.calls.clear()
        return operations


@pytest.fixture
def setup() -> Setup:
    return Setup()


def calls(store: TierStore) -> dict[str, Callable[[], object]]:
    return {
        "put": lambda: store.put("a", [b"1"], 1),
        "put_if": lambda: store.put_if("new", b"1", None),
        "get": lambda: store.get("a", max_bytes=10),
        "get_range": lambda: store.get_range("a", 0, 1),
        "list": lambda: list(store.list("")),
        "list_folders": lambda: store.list_folders(""),
        "delete": lambda: store.delete(["b"]),
    }


def test_store_with_retries_keeps_the_contract() -> None:
    def opened(url: str) -> TierStore:
        return Setup(inner=MemoryTierStore(url.removeprefix("memory://"))).store

    check_tier_store(opened, "memory://{name}", objects=50, big_bytes=1000, isolated=False)


def test_call_that_fails_twice_is_repeated_and_returns(setup: Setup) -> None:
    setup.store.put("a", [b"1"], 1)
    for name, call in calls(setup.store).items():
        setup.called()
        setup.faulty.fail(unavailable(name), times=2)
        call()
        assert [one for one in setup.called() if one == name] == [name] * 3
    assert setup.store.retries == 2 * len(calls(setup.store))
    assert setup.store.circuit.state is CircuitState.CLOSED


def test_last_failure_is_raised(setup: Setup) -> None:
    setup.faulty.fail(unavailable())
    with pytest.raises(TierUnavailable, match="a: get: 503 SlowDown"):
        setup.store.get("a", max_bytes=1)
    assert setup.called() == ["get"] * 4


@for_each("error", [ObjectNotFound("x"), TierDenied("x"), TierError("x"), ObjectChanged("x"), ValueError("x")])
def test_answers_are_not_repeated(error: Exception) -> None:
    setup = Setup()

    def answer(call: object) -> object:
        raise error

    setup.faulty.fail(TierFault(before=answer))
    with pytest.raises(type(error)):
        setup.store.get("a", max_bytes=1)
    assert setup.called() == ["get"]


def test_delays_are_random_below_a_bound_that_doubles() -> None:
    setup = Setup(RetryPolicy(attempts_max=100, delay_ms=100, delay_max_ms=1_600, deadline_ms=1e9, failures_max=1000))
    setup.faulty.fail(unavailable())
    with pytest.raises(TierUnavailable):
        setup.store.get("a", max_bytes=1)
    for sleep, bound_ms in zip(setup.sleeps, (100, 200, 400, 800, *(1_600 for _ in range(95))), strict=True):
        assert 0 <= sleep <= bound_ms / 1000
    assert max(setup.sleeps) > 1.4
    assert min(setup.sleeps[10:]) < 0.2, "full jitter begins at 0"


def test_same_seed_gives_the_same_delays() -> None:
    sleeps = []
    for _ in range(2):
        setup = Setup()
        setup.faulty.fail(unavailable())
        with pytest.raises(TierUnavailable):
            setup.store.get("a", max_bytes=1)
        sleeps.append(setup.sleeps)
    assert sleeps[0] == sleeps[1]
    assert len(sleeps[0]) == 3


def test_no_attempt_begins_after_the_deadline(setup: Setup) -> None:
    def fail_slowly(call: object) -> object:
        setup.clock.advance(2_600)
        raise TierUnavailable("slow")

    setup.faulty.fail(TierFault(before=fail_slowly))
    with pytest.raises(TierUnavailable, match="slow"):
        setup.store.get("a", max_bytes=1)
    assert setup.called() == ["get"] * 2


def test_put_of_a_generator_is_sent_once(setup: Setup) -> None:
    setup.faulty.fail(lost_answer("put"), times=1)
    parts = (part for part in [b"1", b"2"])
    with pytest.raises(TierUnavailable):
        setup.store.put("a", parts, 2)
    assert setup.called() == ["put"]


def test_put_of_what_can_be_read_again_is_repeated_whole(setup: Setup) -> None:
    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"1", b"2"])

    for parts in ([b"1", b"2"], Parts()):
        setup.faulty.fail(lost_answer("put"), times=1)
        setup.store.put("a", parts, 2)
        assert setup.called() == ["put", "put"]
        assert setup.store.get("a", max_bytes=2).body == b"12"
        setup.called()


def test_errors_of_the_source_are_not_repeated(setup: Setup) -> None:
    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            raise StorageFailed("a disk")

    with pytest.raises(StorageFailed, match="a disk"):
        setup.store.put("a", Parts(), 2)
    assert setup.called() == ["put"]


# --- conditional puts


def test_conditional_put_whose_answer_was_lost_is_recognized(setup: Setup) -> None:
    for body, expected in ((b"first", None), (b"second", "1")):
        setup.faulty.fail(lost_answer("put_if"), times=1)
        version = setup.store.put_if("m", body, expected)
        assert setup.called() == ["put_if", "get"]
        assert setup.store.get("m", max_bytes=9) == (body, version)
        setup.called()


def test_conditional_put_that_did_not_take_place_is_repeated_after_a_look(setup: Setup) -> None:
    setup.faulty.fail(unavailable("put_if"), times=1)
    setup.store.put_if("m", b"first", None)
    assert setup.called() == ["put_if", "get", "put_if"]


def test_conditional_put_that_lost_after_an_unknown_attempt_is_refused(setup: Setup) -> None:
    for body in (b"another", b"x"):  # longer than the put's own, and not
        setup.faulty.inner.delete(["m"])
        setup.faulty.fail(unavailable("put_if"), times=1)

        def put_by_another(seconds: float, body: bytes = body) -> None:
            setup.faulty.inner.put_if("m", body, None)

        setup.store._sleep = put_by_another
        with pytest.raises(ObjectChanged):
            setup.store.put_if("m", b"mine", None)
        assert setup.store.get("m", max_bytes=9).body == body


def test_attempt_that_arrives_after_the_look_is_recognized() -> None:
    """The first request hangs in a proxy until the object was read, and comes before the second."""
    setup = Setup()
    setup.faulty.fail(unavailable("put_if"), times=1)

    def arrive(operation: str, key: str) -> None:
        puts = [one for one in setup.faulty.calls if one.operation == "put_if"]
        if operation == "put_if" and len(puts) == 2:
            setup.faulty.inner.put_if("m", b"mine", None)

    setup.faulty.before = arrive
    version = setup.store.put_if("m", b"mine", None)
    assert setup.called() == ["put_if", "get", "put_if", "get"]
    assert setup.store.get("m", max_bytes=9) == (b"mine", version)


def test_first_refusal_is_not_looked_at(setup: Setup) -> None:
    """Another writer may have put the same bytes: without a failure they are not this put's."""
    setup.store.put_if("m", b"same", None)
    with pytest.raises(ObjectChanged):
        setup.store.put_if("m", b"same", None)
    assert setup.called() == ["put_if", "put_if"]


def test_read_that_fails_counts_as_an_attempt(setup: Setup) -> None:
    setup.faulty.fail(lost_answer("put_if"), times=1)
    setup.faulty.fail(unavailable("get"))
    with pytest.raises(TierUnavailable):
        setup.store.put_if("m", b"mine", None)
    assert setup.called() == ["put_if", "get", "get", "get"]


def test_conditional_puts_of_several_writers_with_lost_answers_lose_no_change() -> None:
    inner = MemoryTierStore()
    inner.put_if("n", b"", None)
    policy = RetryPolicy(attempts_max=50, delay_ms=0, delay_max_ms=0, failures_max=10_000)

    def write(writer: int) -> None:
        faulty = FaultyTierStore(inner, seed=writer)
        faulty.fail(lost_answer("put_if"), probability=0.3)
        faulty.fail(unavailable("*"), probability=0.3)
        store = RetryingStore(faulty, policy, clock=ManualClock(), rng=random.Random(writer), sleep=lambda _: None)
        for number in range(10):
            while True:
                body, version = store.get("n", max_bytes=10_000)
                try:
                    store.put_if("n", body + b"%d-%d " % (writer, number), version)
                except ObjectChanged:
                    continue
                break

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    changes = inner.get("n", max_bytes=10_000).body.split()
    expected = {b"%d-%d" % (writer, number) for writer in range(4) for number in range(10)}
    assert set(changes) == expected


# --- lists


class OneByOne(MemoryTierStore):
    """Lists that fail behind each `every` entries."""

    every = 1

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        for number, entry in enumerate(super().list(prefix)):
            if number == self.every:
                self.every += 1
                raise TierUnavailable("broke off")
            yield entry


def test_list_goes_on_behind_its_last_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "PAGE_SIZE", 1)
    inner = OneByOne()
    for number in range(6):
        inner.put(f"a/{number}", [b"1"], 1)
    setup = Setup(RetryPolicy(failures_max=100), inner)
    assert [entry.key for entry in setup.store.list("a")] == [f"a/{number}" for number in range(6)]


def test_list_reads_pages_when_they_are_needed(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "PAGE_SIZE", 2)
    for number in range(6):
        setup.store.put(f"{number}", [b"1"], 1)
    entries = setup.store.list("")
    assert next(entries).key == "0"
    setup.called()
    setup.faulty.fail(unavailable("list"), times=1)
    assert [entry.key for entry in entries] == ["1", "2", "3", "4", "5"]
    assert setup.called() == [], "the same list goes on"


# --- the circuit


def test_store_that_is_away_is_not_asked_until_the_time_has_passed(setup: Setup) -> None:
    setup.store.put("a", [b"1"], 1)
    setup.called()
    setup.faulty.fail(unavailable())
    for _ in range(2):
        with pytest.raises(TierUnavailable):
            setup.store.get("a", max_bytes=1)
    assert setup.called() == ["get"] * 6
    assert setup.store.circuit.state is CircuitState.OPEN
    for call in calls(setup.store).values():
        with pytest.raises(TierUnavailable, match="not tried: 6 calls in a row have failed; .*503 SlowDown"):
            call()
    assert setup.called() == []
    setup.faulty.mend()
    setup.clock.advance(60_000)
    assert setup.store.get("a", max_bytes=1).body == b"1"
    assert setup.store.circuit.state is CircuitState.CLOSED


def test_refused_credentials_do_not_open_the_circuit(setup: Setup) -> None:
    """The store answers; and the message that they are expired must not be hidden by another."""
    setup.faulty.fail(expired())
    for _ in range(20):
        with pytest.raises(TierDenied):
            setup.store.get("a", max_bytes=1)
    assert setup.store.circuit.state is CircuitState.CLOSED


def test_crash_of_the_source_leaves_the_circuit_to_the_next_call(setup: Setup) -> None:
    setup.faulty.fail(unavailable("get"))
    for _ in range(2):
        with pytest.raises(TierUnavailable):
            setup.store.get("a", max_bytes=1)
    setup.clock.advance(60_000)

    def parts() -> Iterable[bytes]:
        raise KeyError("source")
        yield b""

    with pytest.raises(KeyError):
        setup.store.put("a", parts(), 5)
    assert setup.store.circuit.state is CircuitState.HALF_OPEN


def test_closing_ends_the_wait_of_another_thread() -> None:
    faulty = FaultyTierStore(MemoryTierStore())
    faulty.fail(unavailable())
    policy = RetryPolicy(delay_ms=1e7, delay_max_ms=1e7, deadline_ms=1e9)
    store = RetryingStore(faulty, policy, clock=ManualClock(), rng=random.Random(1))
    raised: list[BaseException] = []
    called = threading.Event()
    faulty.before = lambda operation, key: called.set()

    def call() -> None:
        try:
            store.get("a", max_bytes=1)
        except TierError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert called.wait(30)
    store.close()
    thread.join(30)
    assert not thread.is_alive()
    assert [str(error) for error in raised] == ["memory:// is closed"]
