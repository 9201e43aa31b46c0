"""A server that is killed and comes back, with what it had."""

from __future__ import annotations

import threading

import pytest

from compat_tests.tiered.retrying import PATIENT, open_retrying
from compat_tests.tiered.servers import Server
from compat_tests.waits import eventually
from kqueue.tier.errors import ObjectNotFound, TierUnavailable
from kqueue.tier.stores.circuit import CircuitState
from kqueue.tier.stores.retries import RetryPolicy


def test_puts_ride_out_a_server_that_is_killed(versity: Server, prefix: str) -> None:
    store = open_retrying(versity.url(prefix))
    body = bytes(range(256)) * (80 << 10)  # 20 MiB: an upload of parts
    done: list[int] = []
    failed: list[BaseException] = []

    def put() -> None:
        try:
            for number in range(12):
                store.put(f"big/{number}", [body], len(body))
                store.put_if(f"small/{number}", b"%d" % number, None)
                done.append(number)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    for kills in (2, 5):
        eventually(lambda: len(done) >= kills or failed, "objects are put")  # noqa: B023
        versity.kill()
        versity.start()
    thread.join(120)
    assert not failed
    assert [entry.key for entry in store.list("small")] == sorted(f"small/{number}" for number in range(12))
    for number in range(12):
        assert store.get(f"big/{number}", max_bytes=len(body)).body == body
        assert store.get(f"small/{number}", max_bytes=9).body == b"%d" % number


def test_killed_server_leaves_the_whole_object_or_none(versity: Server, prefix: str) -> None:
    body = b"x" * (20 << 20)
    store = open_retrying(versity.url(prefix), RetryPolicy(attempts_max=1))

    def parts() -> object:
        yield body[: len(body) // 2]
        versity.kill()
        yield body[len(body) // 2 :]

    with pytest.raises(TierUnavailable):
        store.put("a", parts(), len(body))  # type: ignore[arg-type]
    versity.start()
    with pytest.raises(ObjectNotFound):
        store.get("a", max_bytes=len(body))
    assert list(store.list("")) == []
    store.put("a", [body], len(body))
    assert store.get("a", max_bytes=len(body)).body == body


def test_circuit_opens_while_the_server_is_away_and_closes_after_it(versity: Server, prefix: str) -> None:
    policy = RetryPolicy(attempts_max=2, delay_ms=1, failures_max=4, open_ms=500)
    store = open_retrying(versity.url(prefix), policy)
    store.put("a", [b"1"], 1)
    versity.kill()
    for _ in range(2):
        with pytest.raises(TierUnavailable):
            store.get("a", max_bytes=1)
    assert store.circuit.state is CircuitState.OPEN
    with pytest.raises(TierUnavailable, match="not tried"):
        store.get("a", max_bytes=1)
    versity.start()
    eventually(lambda: store.circuit.state is CircuitState.HALF_OPEN, "the next call may be tried")
    assert store.get("a", max_bytes=1).body == b"1"
    assert store.circuit.state is CircuitState.CLOSED


def test_policy_of_these_tests_outlasts_a_restart() -> None:
    assert PATIENT.deadline_ms >= 30_000
