from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.broker.purgatory import DelayedOperation
from kqueue.network.quota_gate import QuotaGate
from kqueue.security.principals import Principal
from kqueue.security.quotas import USER, entity_of
from kqueue.testing.simulation import Simulation
from kqueue.tests.network.harness import connect, serving, until
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.fetch import FetchRequest, ReplicaState


class Gated:
    """A gate of a broker where ann has quotas, and a clock of its own."""

    def __init__(self, **quotas: float) -> None:
        self.sim = Simulation()
        self.sim.result(self.sim.broker.security.quotas.alter({entity_of([(USER, "ann")]): quotas}))
        self.now_s = 0.0
        self.throttled: list[int] = []
        self.gate = QuotaGate(self.sim.broker.security.quotas, lambda: self.now_s)

    def start(self, name: str, handle: Any, request: Any = None, *, user: str = "ann", size: int = 100) -> Any:
        row = handler_table.load(name)
        bounded = self.gate.bounded(
            handler_table.ApiHandler(BY_MODULE[name], row.versions, handle, row.error_response, access=row.access)
        )
        self.gate.begin(size)
        context = RequestContext(
            self.sim.broker, 9, "app", throttle=self.throttled.append, principal=Principal("User", user)
        )
        return bounded(request, context)

    def taking(self, seconds: float, result: Any) -> Any:
        def handle(request: Any, context: RequestContext) -> Any:
            self.now_s += seconds
            if isinstance(result, Exception):
                raise result
            return result

        return handle


def response() -> Any:
    return SimpleNamespace(throttle_time_ms=0)


def test_produced_bytes_count_when_the_response_is_complete() -> None:
    gated = Gated(producer_byte_rate=100)
    ready: list[Any] = []
    operation = DelayedOperation(("key",), None, lambda expired: ready[0] if ready else None)
    assert gated.start("produce", gated.taking(0, operation), size=2_000) is operation
    assert operation.try_complete(False) is None
    assert gated.throttled == []
    ready.append(response())
    assert operation.try_complete(False).throttle_time_ms == 10_000
    assert gated.throttled == [10_000]


def test_a_request_without_a_response_holds_its_connection_back() -> None:
    gated = Gated(producer_byte_rate=100)
    assert gated.start("produce", gated.taking(0, None), size=2_000) is None
    assert gated.throttled == [10_000]


def test_only_produce_counts_its_bytes_and_others_are_not_bounded() -> None:
    gated = Gated(producer_byte_rate=100)
    gated.start("metadata", gated.taking(0, response()), size=2_000)
    gated.start("produce", gated.taking(0, response()), size=2_000, user="bob")
    assert gated.throttled == []


@for_each("result", [None, SimpleNamespace(throttle_time_ms=0), ValueError()])
def test_time_counts_whatever_the_result_is(result: Any) -> None:
    gated = Gated(request_percentage=10)
    for _ in range(2):
        try:
            gated.start("metadata", gated.taking(0.9, result))
        except ValueError:
            assert isinstance(result, ValueError)
    assert gated.throttled == [1000]


def test_time_of_a_delayed_operation_counts_but_not_its_wait() -> None:
    gated = Gated(request_percentage=10)

    def try_complete(expired: bool) -> Any:
        gated.now_s += 0.8
        return DelayedOperation((), None, last) if not expired else response()

    def last(expired: bool) -> Any:
        gated.now_s += 0.8
        return response()

    operation = gated.start("metadata", gated.taking(0.1, DelayedOperation((), None, try_complete)))
    gated.now_s += 1_000
    following = operation.try_complete(False)
    assert gated.throttled == []
    gated.now_s += 1_000
    assert following.try_complete(True).throttle_time_ms == 1000  # of the 7 s above, one window at most
    assert gated.throttled == [1000]


def test_acquired_records_are_sent_and_the_member_waits_after_them() -> None:
    gated = Gated(consumer_byte_rate=100)
    partition = SimpleNamespace(records=b"r" * 2_000)
    topic = SimpleNamespace(partitions=[partition, SimpleNamespace(records=None)])
    answer = SimpleNamespace(throttle_time_ms=0, responses=[topic])
    assert gated.start("share_fetch", gated.taking(0, answer)).throttle_time_ms == 10_000
    assert partition.records
    assert gated.throttled == [10_000]


def test_a_response_that_says_more_holds_its_connection_back_for_it() -> None:
    gated = Gated(request_percentage=10)
    assert gated.start("create_topics", gated.taking(0, SimpleNamespace(throttle_time_ms=77))).throttle_time_ms == 77
    assert gated.throttled == [77]


def test_throttled_time_is_counted_by_quota() -> None:
    gated = Gated(producer_byte_rate=100, request_percentage=10)
    quotas = gated.sim.broker.security.quotas
    gated.start("produce", gated.taking(0, None), size=2_000)
    gated.start("create_topics", gated.taking(0, SimpleNamespace(throttle_time_ms=77)))
    gated.start("fetch", gated.taking(0, SimpleNamespace(throttle_time_ms=55)), FetchRequest())
    assert quotas.throttled_ms == {"producer_byte_rate": 10_000, "controller_mutation_rate": 77}


def test_requests_between_brokers_are_not_throttled() -> None:
    gated = Gated(request_percentage=0.001)
    fetch = FetchRequest(replica_id=-1, replica_state=ReplicaState(replica_id=2))
    for name, request in (("write_txn_markers", None), ("write_share_group_state", None), ("fetch", fetch)):
        gated.start(name, gated.taking(1, response()), request)
    assert gated.throttled == []
    gated.start("fetch", gated.taking(1, response()), FetchRequest(replica_id=-1))
    assert gated.throttled == [1000]


def test_a_client_that_is_held_back_and_has_gone_is_forgotten() -> None:
    async def test() -> None:
        async with serving() as server:
            client = await connect(server)
            await client.ask("ApiVersions", 0)
            [session] = server.connections.sessions
            session.throttle(1_000_000)
            await client.close()
            await until(lambda: not server.connections.sessions)

    asyncio.run(test())
