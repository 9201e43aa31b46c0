"""`kqueue.client`: the cost of reading whole batches, and of one request."""

from __future__ import annotations

import time

from benchmarks import frames
from benchmarks.loads import FETCH_BYTES, GB, ROUNDS
from benchmarks.results import Figure, Row
from benchmarks.served import Served
from kqueue.client import LATEST, Client, TopicPartition

REQUESTS = 2_000


def fetch(served: Served, topic: str) -> Row:
    """Read the topic of `loads.bulk_produce`, and walk the headers of its batches."""
    place = TopicPartition(topic, 0)
    with frames.asking(served.bootstrap) as client:
        best = min(_fetch_all(client, place) for _ in range(ROUNDS))
        request_us = _request_us(client, place)
    return Row(
        "bulk fetch, kqueue.client",
        [
            Figure(best[2] / 1e6 / best[0], "MB/s"),
            Figure(best[1] / (best[2] / GB), "client CPU s/GB"),
            Figure(request_us, "client CPU µs/request"),
        ],
        f"fetches of {FETCH_BYTES >> 20} MiB, one after another; requests: ListOffsets of one partition",
    )


def _fetch_all(client: Client, place: TopicPartition) -> tuple[float, float, int]:
    """Return seconds, CPU seconds of this process, and bytes."""
    end = client.offsets({place: LATEST})[place].offset or 0
    offset = total = 0
    cpu_s, started = time.process_time(), time.perf_counter()
    while offset < end:
        fetched = client.fetch({place: offset}, partition_max_bytes=FETCH_BYTES)[place]
        after = fetched.next_offset
        if after is None:
            raise RuntimeError(f"no whole batch at offset {offset} of {end}")
        offset = after
        total += len(fetched.records)
    return time.perf_counter() - started, time.process_time() - cpu_s, total


def _request_us(client: Client, place: TopicPartition) -> float:
    cpu_s = time.process_time()
    for _ in range(REQUESTS):
        client.offsets({place: LATEST})
    return (time.process_time() - cpu_s) / REQUESTS * 1e6
