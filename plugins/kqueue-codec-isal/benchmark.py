"""Compares ISA-L with zlib on record batches: `python benchmark.py`.

It prints MB/s of uncompressed bytes and the compressed size as a share of them. The workloads are
JSON orders with keys, log lines, and random bytes. Each is measured in batches of 16 KiB and 1 MB,
the sizes that clients and compaction produce. Rounds alternate between codecs; the best one counts.
"""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable

from kqueue_codec_isal import CODEC

from kqueue.records.batch import Record
from kqueue.records.builder import build_batch
from kqueue.records.codecs import Codec
from kqueue.records.codecs.gzip import GzipCodec

BATCH_HEADER_BYTES = 61
ROUNDS = 5
WORK_BYTES = 4_000_000  # per round
WORDS = ("coffee", "cake", "espresso", "sandwich", "water", "juice", "tea", "croissant")
NAMES = ("Ada", "Grace", "Edsger", "Barbara", "Donald", "Tony", "Leslie", "Radia")


def order(rng: random.Random, number: int) -> tuple[bytes, bytes]:
    items = [
        {"sku": rng.choice(WORDS), "count": rng.randint(1, 4), "cents": rng.randint(90, 1900)}
        for _ in range(rng.randint(1, 5))
    ]
    order_fields = {
        "id": number,
        "customer": rng.choice(NAMES),
        "table": rng.randint(1, 30),
        "items": items,
        "token": rng.randbytes(8).hex(),
    }
    return b"customer-%d" % rng.randint(1, 5000), json.dumps(order_fields).encode()


def log_line(rng: random.Random, number: int) -> tuple[bytes, bytes]:
    path = f"/{rng.choice(WORDS)}/{rng.randint(1, 999)}"
    address = f"10.0.{rng.randint(0, 255)}.{rng.randint(0, 255)}"
    when = f"07/Mar/2026:10:{number // 60 % 60:02}:{number % 60:02}"
    text = f'{address} - - [{when}] "GET {path} HTTP/1.1" {rng.choice((200, 200, 304, 404))} {rng.randint(90, 90000)}'
    return b"", text.encode()


def reading(rng: random.Random, number: int) -> tuple[bytes, bytes]:
    return b"sensor-%d" % (number % 40), rng.randbytes(120)


LOADS: dict[str, Callable[[random.Random, int], tuple[bytes, bytes]]] = {
    "orders": order,
    "log lines": log_line,
    "noise": reading,
}
CODECS: tuple[tuple[str, Codec, int], ...] = (
    ("zlib 1", GzipCodec(), 1),
    ("zlib 6 (default)", GzipCodec(), 6),
    ("isal 0", CODEC, 0),
    ("isal 1", CODEC, 1),
    ("isal 2 (default)", CODEC, 2),
    ("isal 3", CODEC, 3),
)


def make_records(load: str, size: int) -> bytes:
    """Return the uncompressed records section of one batch of about `size` bytes."""
    rng = random.Random(size)
    records: list[Record] = []
    total = 0
    while total < size:
        key, value = LOADS[load](rng, len(records))
        records.append(Record(len(records), 1_700_000_000_000 + len(records), key, value))
        total += len(key) + len(value) + 10
    return bytes(build_batch(records, base_offset=0)[BATCH_HEADER_BYTES:])


def seconds(run: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return time.perf_counter() - start


def measure(data: bytes) -> list[tuple[str, float, float, float]]:
    """Return name, compress MB/s, decompress MB/s and compressed share of the bytes per codec."""
    times = max(WORK_BYTES // len(data), 1)
    packed = [codec.compress(data, level) for _, codec, level in CODECS]
    best = [(float("inf"), float("inf"))] * len(CODECS)
    for _ in range(ROUNDS):
        for index, (_, codec, level) in enumerate(CODECS):
            compress_s = seconds(lambda codec=codec, level=level: codec.compress(data, level), times)  # type: ignore[misc]
            decompress_s = seconds(lambda codec=codec, index=index: codec.decompress(packed[index], len(data)), times)  # type: ignore[misc]
            best[index] = min(best[index][0], compress_s), min(best[index][1], decompress_s)
    done = len(data) * times / 1e6
    return [
        (CODECS[index][0], done / compress_s, done / decompress_s, len(packed[index]) / len(data))
        for index, (compress_s, decompress_s) in enumerate(best)
    ]  # fmt: skip


def main() -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}, one core; best of {ROUNDS} rounds\n")
    for load in LOADS:
        for size in (16 * 1024, 1_000_000):
            data = make_records(load, size)
            print(f"{load}, batches of {len(data):,} bytes")
            print(f"  {'codec':<18}{'compress MB/s':>15}{'decompress MB/s':>17}{'left':>8}")
            for name, compress_mb_s, decompress_mb_s, left in measure(data):
                print(f"  {name:<18}{compress_mb_s:>15.0f}{decompress_mb_s:>17.0f}{left:>8.1%}")
            print()


if __name__ == "__main__":
    main()
