"""Asks a whole broker, in simulation, through the bytes of requests and responses, as a client at
the other end of a socket would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kqueue.api import handler_table
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import AnswerNotExpected, KqueueError
from kqueue.broker.purgatory import DelayedOperation, WatchedOperation
from kqueue.records.batch import Record, iter_batches, iter_records
from kqueue.records.builder import BatchBuilder
from kqueue.records.message_set import encode_set
from kqueue.schema import decode, encode, writer
from kqueue.testing.simulation import Simulation
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

NOW_MS = 1_700_000_000_000  # where a simulation begins


class PendingRequest:
    """A request under way; `response` is None until it is answered. `frame` is its buffer, which
    the server uses for the next one.
    """

    def __init__(self, frame: bytearray) -> None:
        self.response: Any = None
        self.frame = frame
        self.watched: WatchedOperation | None = None

    def cancel(self) -> None:
        """Forget the request, as the end of its connection does."""
        watched, self.watched = self.watched, None
        if watched is not None:
            watched.cancel()


class SimulatedClient:
    """One client of one broker. `sim` is the broker's world: topics, time, jobs.

    `answers_errors`: what a handler raises is answered as the server does.
    """

    answers_errors = False

    def __init__(self, settings: Mapping[str, object] | None = None, *, sim: Simulation | None = None) -> None:
        self.sim = sim or Simulation({"kqueue.storage": "memory", **(settings or {})})

    def start(self, request: Any, version: int, **call: Any) -> PendingRequest:
        """Begin a request; what is due now is not run yet."""
        api = BY_MODULE[type(request).__module__.rpartition(".")[2]]
        authorizer = self.sim.broker.security.authorizer
        lookup = handler_table.lookup if authorizer is None else handler_table.guarded_lookup(handler_table.lookup)
        served = lookup(api.key, version)
        started = PendingRequest(bytearray(encode(request, version)))
        received = decode(api.request_class, version, started.frame)
        context = RequestContext(self.sim.broker, version, "tester", "/127.0.0.1", **call)
        try:
            outcome = served.handle(received, context)
        except KqueueError as error:
            if not self.answers_errors or isinstance(error, AnswerNotExpected):
                raise
            outcome = handler_table.error_response(received, version, error)

        def done(response: Any) -> None:
            chunks: list[Any] = []
            try:
                writer(api.response_class, version)(response, chunks)
            except Exception as error:
                raise AssertionError(f"the answer can't be written at version {version}: {response}") from error
            raw = b"".join(chunk.read() if getattr(chunk, "is_region", False) else bytes(chunk) for chunk in chunks)
            started.response = decode(api.response_class, version, raw)

        if isinstance(outcome, DelayedOperation):
            started.watched = self.sim.broker.scheduler.purgatory.add(outcome, done)
        elif outcome is not None:
            done(outcome)
        return started

    def ask(self, request: Any, version: int, **call: Any) -> Any:
        """The response, once all is done that can be done now; None: there is none (yet)."""
        started = self.start(request, version, **call)
        self.sim.settle()
        return started.response

    def produce(
        self,
        topic: str,
        records: bytes | None,
        *,
        version: int = 9,
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 1000,
        transactional_id: str | None = None,
    ) -> Any:
        """The answer for the one partition; None: no answer."""
        response = self.ask(
            produce_request(self, topic, records, version, partition, acks, timeout_ms, transactional_id), version
        )
        return response and response.responses[0].partition_responses[0]


def produce_request(
    client: SimulatedClient,
    topic: str,
    records: bytes | None,
    version: int = 9,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 1000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One partition's records; from version 13 on with the topic's id in place of its name."""
    data = TopicProduceData(partition_data=[PartitionProduceData(index=partition, records=records)])
    if version >= 13:
        known_topic = client.sim.broker.topics.find(topic)
        data.topic_id = known_topic.id if known_topic is not None else b"\x07" * 16
    else:
        data.name = topic
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def batch(*values: bytes | None, key: bytes | None = b"k", time_ms: int = NOW_MS, **settings: Any) -> bytes:
    """One batch with these values, 1 ms apart; `settings` are those of `BatchBuilder`."""
    builder = BatchBuilder(**settings)
    for number, value in enumerate(values):
        builder.append(time_ms + number, key, value)
    return bytes(builder.build())


def old_set(magic: int, *values: bytes, codec_id: int = 0) -> bytes:
    """A message set of magic 0 or 1 with these values."""
    return encode_set(
        [Record(number, NOW_MS + number, b"k", value, (), -1) for number, value in enumerate(values)], magic, codec_id
    )


def stored(client: SimulatedClient, topic: str = "t", partition: int = 0) -> list[Record]:
    """Every record of the log, committed or not."""
    log = client.sim.broker.topics.partition(topic, partition).log
    data = log.read(0, 1 << 30, end_offset=log.end_offset, min_one_batch=True).read() if log.end_offset else b""
    return [record for position, _ in iter_batches(data) for record in iter_records(data, position)]


def values(client: SimulatedClient, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    """The values of `stored`."""
    return [record.value for record in stored(client, topic, partition)]


def versions_of(module: str) -> Iterable[int]:
    """All versions that a module serves."""
    low, high = handler_table.load(module).versions
    return range(low, high + 1)


__all__ = [
    "NOW_MS",
    "ErrorCode",
    "PendingRequest",
    "ProduceResponse",
    "SimulatedClient",
    "batch",
    "old_set",
    "produce_request",
    "stored",
    "values",
    "versions_of",
]  # fmt: skip
