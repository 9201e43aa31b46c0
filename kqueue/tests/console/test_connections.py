from __future__ import annotations

import pytest

from kqueue.client import ClientOptions
from kqueue.client.errors import BrokerRefused, BrokerUnreachable, DeadlinePassed
from kqueue.console.connections import PROBE_MS, SILENT_S, ConnectionPool
from kqueue.console.problems import TooBusy

OPTIONS = ClientOptions(bootstrap="127.0.0.1:1")


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_client_is_lent_again_to_the_same_login_only() -> None:
    pool = ConnectionPool()
    with pool.client("ann", OPTIONS) as first:
        pass
    with pool.client("ann", OPTIONS) as again, pool.client("bob", OPTIONS) as other:
        assert again is first
        assert other is not first


def test_one_login_cannot_take_all_clients() -> None:
    pool = ConnectionPool(clients_max=3, per_login_max=2, wait_s=0)
    with pool.client("ann", OPTIONS), pool.client("ann", OPTIONS):
        with pytest.raises(TooBusy), pool.client("ann", OPTIONS):
            pass
        with pool.client("bob", OPTIONS), pytest.raises(TooBusy), pool.client("eve", OPTIONS):
            pass


def test_an_idle_client_of_another_login_makes_room() -> None:
    pool = ConnectionPool(clients_max=1, wait_s=0)
    closed = []
    with pool.client("ann", OPTIONS) as client:
        client.close = lambda: closed.append("ann")
    with pool.client("bob", OPTIONS):
        assert closed == ["ann"]


def test_a_client_that_nobody_used_for_long_is_closed() -> None:
    clock = _Clock()
    pool = ConnectionPool(idle_s=60, now_s=clock)
    with pool.client("ann", OPTIONS) as first:
        pass
    clock.now_s = 61
    with pool.client("ann", OPTIONS) as second:
        assert second is not first


def test_a_login_that_ends_loses_its_clients_also_those_in_use() -> None:
    pool = ConnectionPool()
    with pool.client("ann", OPTIONS) as first, pool.client("ann", OPTIONS) as second:
        pool.forget("ann")
    with pool.client("ann", OPTIONS) as third:
        assert third not in (first, second)


def test_a_client_is_kept_after_a_refusal_and_closed_after_an_error_of_a_page() -> None:
    pool = ConnectionPool()
    with pytest.raises(BrokerRefused), pool.client("ann", OPTIONS) as first:
        raise BrokerRefused("no")
    with pytest.raises(KeyError), pool.client("ann", OPTIONS) as second:
        raise KeyError
    with pool.client("ann", OPTIONS) as third:
        pass
    assert second is first
    assert third is not first


def test_clients_in_use_are_closed_when_they_come_back_after_the_end() -> None:
    pool = ConnectionPool()
    with pool.client("ann", OPTIONS) as first:
        pool.close()
    with pool.client("ann", OPTIONS) as second:
        assert second is not first


def test_after_a_call_that_reached_no_broker_the_next_ones_end_soon() -> None:
    clock = _Clock()
    pool = ConnectionPool(now_s=clock)
    timeouts_ms = []

    def use(error: Exception | None = None) -> None:
        with pool.client("ann", OPTIONS) as client:
            timeouts_ms.append(client.options.timeout_ms)
            if error is not None:
                raise error

    late = DeadlinePassed("no success")
    late.__cause__ = BrokerUnreachable("refused")
    with pytest.raises(DeadlinePassed):
        use(late)
    use()
    use()
    assert timeouts_ms == [OPTIONS.timeout_ms, PROBE_MS, OPTIONS.timeout_ms]
    with pytest.raises(BrokerUnreachable):
        use(BrokerUnreachable("refused"))
    clock.now_s += SILENT_S + 1
    use()
    assert timeouts_ms[-1] == OPTIONS.timeout_ms
    with pytest.raises(DeadlinePassed):
        use(DeadlinePassed("a slow broker"))
    use()
    assert timeouts_ms[-1] == OPTIONS.timeout_ms
