"""`python -m benchmarks.hooks`: the cost of interception per request, in microseconds.

Measured from the frame to the bytes of the response, without a socket. Targets: recording a request
in an embedded broker takes less than 1 µs; a served broker pays nothing measurable.
"""

from __future__ import annotations

import gc
import itertools
import logging
import timeit
from collections.abc import Callable

import kqueue
from kqueue.api.request_context import RequestContext
from kqueue.network.contract import Chunks
from kqueue.network.interception import BrokerHooks, InterceptedRequest, InterceptingDispatcher, with_hooks
from kqueue.network.responses import DeferredResponse
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.schema import encode
from kqueue.security.principals import ANONYMOUS
from kqueue.storage import MemoryStorage
from kqueue.storage.fault_injection import FaultInjectingStorage, StorageHooks
from kqueue.testing import faults
from kqueue.wire.headers import request_header
from kqueue.wire.messages.heartbeat import HeartbeatRequest
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "t"
FILE_BYTES_MAX = 32 * 1024 * 1024
ROUNDS, CALLS = 100, 1000


def microseconds(call: Callable[[], object]) -> float:
    """The cost of one call in the best of many short rounds, without garbage collection."""
    gc.collect()
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


class Caller:
    """A connection whose output is discarded."""

    address, client_host, listener = "10.0.0.1:5", "/10.0.0.1", "PLAINTEXT"
    call: RequestContext | None = None
    principal = ANONYMOUS

    def response_ready(self) -> None: ...

    def cut_off(self, reason: str, error: BaseException | None = None, *, level: int = logging.WARNING) -> None: ...

    def pause_requests(self) -> None: ...

    def resume_requests(self) -> None: ...

    def throttle(self, ms: int) -> None: ...

    def suspend_io(self) -> None: ...

    def resume_io(self) -> None: ...


def frames() -> dict[str, bytes]:
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, None, b"a" * 100)]))
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])]
    produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return {
        "Heartbeat 4": request_header(12, 4, 1, "a-client") + encode(heartbeat, 4),
        "Produce 9 of one record": request_header(0, 9, 1, "a-client") + encode(produce, 9),
    }


def starting(
    start: Callable[[memoryview, Caller], Chunks | DeferredResponse | None], frame: bytes
) -> Callable[[], object]:
    caller, view = Caller(), memoryview(bytearray(frame))
    return lambda: start(view, caller)


def ignore(asked: InterceptedRequest) -> None:
    pass


def measure(broker: kqueue.Broker) -> None:
    async def work() -> None:
        embedded: InterceptingDispatcher = broker._server.connections.start.__self__  # type: ignore[attr-defined]
        dispatcher, client_log = embedded._dispatcher, embedded._client_log
        noted, watched = broker._hooks, BrokerHooks(broker.requests.record)
        watched.requests = (ignore,)
        for name, frame in frames().items():
            plain = 0.0
            for title, hooks in (
                ("as served: no hooks", None),
                ("embedded: noted", noted),
                ("noted, and a hook asked", watched),
            ):
                cost_us = microseconds(starting(with_hooks(dispatcher, hooks, client_log), frame))
                plain = plain or cost_us
                print(f"{cost_us:8.2f} µs  {cost_us - plain:+6.2f}  {name}, {title}")

    broker._call(work)


def measure_faults(broker: kqueue.Broker) -> None:
    with faults(broker) as made:
        made.fail("Fetch", topic="other", times=None)
        made.fail("Produce", topic="other", times=None)

        async def work() -> None:
            for name, frame in frames().items():
                print(
                    f"{microseconds(starting(broker._server.connections.start, frame)):8.2f} µs          {name}, "
                    "two faults for other requests"
                )

        broker._call(work)


def measure_appends() -> None:
    data = bytes(150)
    plain = 0.0
    for title, storage in (
        ("as served", MemoryStorage()),
        ("embedded: with room for hooks", FaultInjectingStorage(MemoryStorage(), StorageHooks())),
    ):
        names = (str(number) for number in itertools.count())
        file = storage.open(next(names), create=True)

        def append() -> None:
            file.append(data)  # noqa: B023
            if file.size > FILE_BYTES_MAX:  # noqa: B023
                file.truncate(0)  # noqa: B023

        cost_us = microseconds(append)
        plain = plain or cost_us
        print(f"{cost_us:8.2f} µs  {cost_us - plain:+6.2f}  append of {len(data)} bytes to memory, {title}")


def main() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        measure(broker)
        measure_faults(broker)
    measure_appends()


if __name__ == "__main__":
    main()
