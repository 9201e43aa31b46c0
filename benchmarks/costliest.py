"""`python -m benchmarks.costliest [API ...]`: the cost of the costliest request of every API.

The requests come from the schemas (`kqueue/tests/costliest.py`), at the size limits and at
`kqueue.request.max.items`. For each: CPU time of the broker, wall time until the response or the
close, growth of resident memory (peak and kept), and the longest wait of another client that sends
Metadata, Produce and Fetch without a pause.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import frames
from benchmarks.served import OwnBroker
from kqueue.api import handler_table
from kqueue.api.handler_table import ApiHandler
from kqueue.base.settings import MiB
from kqueue.client import NewTopic
from kqueue.tests.costliest import Body, Case, cases
from kqueue.wire.headers import request_header
from kqueue.wire.messages import metadata

PLAIN_BYTES = 16 * MiB - 1024
PRODUCE_BYTES = 100 * MiB - 1024
ITEMS = 200_000
GROWTH_MAX_MIB = 256
GOOD_MAX_MS = 500
ANSWER_TIMEOUT_S = 120
PAUSE_S = 0.002


class Cost(NamedTuple):
    """The cost of one request. `answer`: bytes of the response; -1: the connection was closed."""

    cpu_s: float
    wall_s: float
    peak_mib: float
    kept_mib: float
    good_ms: float
    answer: int


class GoodClient:
    """Sends requests without a pause, in a thread; `longest_ms` counts from its last reset to 0."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.longest_ms = 0.0
        self._bootstrap, self._topic = bootstrap, topic
        self._stopped = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> GoodClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join()

    def _run(self) -> None:
        topic = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=self._topic)])
        asked = (
            frames.frame(3, frames.METADATA, topic),
            frames.produce_frame(self._topic, frames.batch(1, b"good")),
            frames.fetch_frame(self._topic, 0, max_bytes=100, max_wait_ms=0),
        )
        with frames.Connection(self._bootstrap) as connection:
            while not self._stopped:
                for frame in asked:
                    started = time.perf_counter()
                    connection.socket.sendall(frame)
                    connection.read_reply()
                    self.longest_ms = max(self.longest_ms, (time.perf_counter() - started) * 1000)
                time.sleep(PAUSE_S)


def resident(pid: int) -> tuple[float, float]:
    """Return resident memory and its peak since `forget_peak`, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes_mib = {
        line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))
    }
    return sizes_mib["VmRSS"], sizes_mib["VmHWM"]


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def ask(own: OwnBroker, good: GoodClient, payload: bytes) -> Cost:
    assert own.pid is not None
    host, _, port = own.bootstrap.rpartition(":")
    forget_peak(own.pid)
    before, _ = resident(own.pid)
    good.longest_ms = 0.0
    cpu_s, started = own.cpu_s(), time.perf_counter()
    size = -1
    with socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S) as sock, contextlib.suppress(OSError):
        sock.sendall(len(payload).to_bytes(4, "big") + payload)
        head = sock.recv(4, socket.MSG_WAITALL)
        if len(head) == 4:
            size = left = int.from_bytes(head, "big")
            while left:
                left -= len(sock.recv(min(left, 1 << 20)) or exit("cut answer"))
    wall_s = time.perf_counter() - started
    time.sleep(0.1)
    cpu_s = own.cpu_s() - cpu_s
    kept, peak = resident(own.pid)
    return Cost(cpu_s, wall_s, peak - before, kept - before, good.longest_ms, size)


def requests(row: ApiHandler, version: int, topic_id: bytes) -> Iterator[tuple[Case, str, bytes]]:
    """Yield every case, at the size limit and at the limit of items."""
    size = PRODUCE_BYTES if row.api.key == 0 else PLAIN_BYTES
    header = request_header(row.api.key, version, 1, "costly")
    for case in cases(row.api.request_class, version):
        for name, items in (("bytes", None), ("items", max(1, ITEMS // row.item_weight) - 8)):
            body = Body(
                row.api.request_class, version, case, size_max=size - len(header), items_max=items, topic_id=topic_id
            )
            yield case, name, header + body.bytes()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costliest", description=__doc__)
    parser.add_argument("apis", nargs="*", help="names of APIs; default: all served APIs")
    parser.add_argument("--all-versions", action="store_true", help="every served version, not only the highest")
    parser.add_argument("--partitions", type=int, default=1, help="partitions of the existing topic")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    missed = 0
    with OwnBroker("group") as own:
        with frames.asking(own.bootstrap) as client:
            client.create_topics([NewTopic("t", options.partitions)])
            topic_id = client.topic_id("t")
        with GoodClient(own.bootstrap, "t") as good:
            for row in handler_table.all_handlers():
                if options.apis and row.api.name not in options.apis:
                    continue
                low, high = row.versions
                for version in range(low if options.all_versions else high, high + 1):
                    for case, limit, payload in requests(row, version, topic_id):
                        if options.only in f"{case} {limit}":
                            missed += show(row.api.name, version, case, limit, len(payload), ask(own, good, payload))
    return bool(missed)


def show(name: str, version: int, case: Case, limit: str, size: int, cost: Cost) -> bool:
    missed = cost.peak_mib > GROWTH_MAX_MIB or cost.good_ms > GOOD_MAX_MS
    answer = f"answer {cost.answer}" if cost.answer >= 0 else "closed"
    print(
        f"{'!' if missed else ' '} {name} v{version} {case} {limit} {size / MiB:.1f} MiB: "
        f"cpu {cost.cpu_s:.2f} s, wall {cost.wall_s:.2f} s, "
        f"peak +{cost.peak_mib:.0f} MiB, kept +{cost.kept_mib:.0f} MiB, "
        f"good client {cost.good_ms:.0f} ms, {answer}",
        flush=True,
    )
    return missed


if __name__ == "__main__":
    sys.exit(main())
