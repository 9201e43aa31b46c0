"""`python benchmarks/wire.py`: microseconds per call for the hot messages, the best of several
rounds.

Targets, on CPython 3.11 with a batch of 2 KB: Produce 9 request read 1.2, response written 0.8,
Fetch 12 response of ten partitions written 6.
"""

from __future__ import annotations

import gc
import timeit
from collections.abc import Callable

from kqueue.schema import Chunk, encode, reader, writer
from kqueue.wire.headers import read_request_header, request_header
from kqueue.wire.messages import fetch, produce

ROUNDS = 15
CALLS = 20_000
BATCH = bytes(2048)


def microseconds(call: Callable[[], object]) -> float:
    """The cost of one call in the best round, without garbage collection."""
    gc.collect()
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def produce_request() -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=3, records=memoryview(BATCH))
    topic = produce.TopicProduceData(name="orders", partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(index=3, base_offset=1_000_000, log_start_offset=0)
    return produce.ProduceResponse(
        responses=[produce.TopicProduceResponse(name="orders", partition_responses=[partition])]
    )


def fetch_response(partition_count: int) -> fetch.FetchResponse:
    partitions = [
        fetch.PartitionData(
            partition_index=index,
            high_watermark=1_000_000,
            last_stable_offset=1_000_000,
            log_start_offset=0,
            aborted_transactions=None,
            records=BATCH,
        )
        for index in range(partition_count)
    ]
    return fetch.FetchResponse(
        session_id=7, responses=[fetch.FetchableTopicResponse(topic="orders", partitions=partitions)]
    )


def writing(message: object, version: int) -> Callable[[], object]:
    write = writer(type(message), version)

    def call() -> None:
        chunks: list[Chunk] = []
        write(message, chunks)

    return call


def main() -> None:
    request = memoryview(encode(produce_request(), 9))
    read = reader(produce.ProduceRequest, 9)
    header = memoryview(request_header(0, 9, 1, "a-client"))
    rows = [
        ("request header 2, read", lambda: read_request_header(header)),
        ("Produce 9 request, read", lambda: read(request, 0)),
        ("Produce 9 response, made", produce_response),
        ("Produce 9 response, written", writing(produce_response(), 9)),
        ("Fetch 12 response of 1 partition, written", writing(fetch_response(1), 12)),
        ("Fetch 12 response of 10 partitions, written", writing(fetch_response(10), 12)),
    ]
    for title, call in rows:
        print(f"{microseconds(call):8.2f} µs  {title}")


if __name__ == "__main__":
    main()
