"""The effect of a compaction on a producer: the same requests to the same broker, without and with
one under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import frames, log_compaction
from benchmarks.frames import Connection
from benchmarks.loads import RECORD, quantiles
from benchmarks.log_data import temporary_folder
from benchmarks.results import Figure, Row
from benchmarks.served import OwnBroker
from kqueue.log.formats.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    RECOVERY_POINTS,
    decode_offsets,
    encode_clean_shutdown,
    encode_offsets,
)

PAUSE_S = 0.0005
LOOK_EVERY = 50  # requests
TIMEOUT_S = 600
P99_AIM_US = 800
COMPACTED = {"log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0.01"}


def produce_beside(records: int, keys: int, samples: int) -> Row:
    """Start a broker twice on one data folder, with the cleaner off, then on."""
    topic, _, partition = log_compaction.PARTITION.rpartition("-")
    with temporary_folder() as folder:
        end_offset = log_compaction.write(folder, records, keys)
        (folder / log_compaction.SOURCES).unlink()
        (folder / RECOVERY_POINTS).write_bytes(encode_offsets({(topic, int(partition)): end_offset}))
        (folder / CLEAN_SHUTDOWN).write_bytes(encode_clean_shutdown(-1))
        before = _size(folder)
        with OwnBroker("kafka", folder, {**COMPACTED, "log.cleaner.enable": "false"}) as broker:
            alone = _latencies_us(broker, lambda taken: taken >= samples)
        with OwnBroker(
            "kafka", folder, {**COMPACTED, "log.cleaner.backoff.ms": "1", "log.segment.delete.delay.ms": "0"}
        ) as broker:
            if (
                frames.end_offset(broker.bootstrap, topic) != end_offset
            ):  # which opens the log, and so begins the compaction
                raise RuntimeError(f"{topic} should end at {end_offset}")
            begun = time.monotonic()
            beside = _latencies_us(broker, lambda _: _is_clean(folder, topic, end_offset, begun))
            compacted_s = time.monotonic() - begun
        if _size(folder) >= before:
            raise RuntimeError(f"{log_compaction.PARTITION} did not become smaller")
    (p50, p99), (p50_beside, p99_beside) = quantiles(alone), quantiles(beside)
    return Row(
        "one-record produce, without and with a compaction beside it",
        [
            Figure(p50, "µs p50"),
            Figure(p99, "µs p99", at_most=P99_AIM_US),
            Figure(p50_beside, "µs p50 beside"),
            Figure(p99_beside, "µs p99 beside", at_most=P99_AIM_US),
        ],
        f"acks=1, flush=kafka; {records / 1e6:.3g} million records compacted in {compacted_s:.1f} s meanwhile, "
        f"{len(beside)} requests",
    )


def _latencies_us(broker: OwnBroker, is_over: Callable[[int], bool]) -> list[float]:
    """Send one request after another until `is_over(count)`; at least 100."""
    topic = frames.create_topic(broker.bootstrap, "beside", {"cleanup.policy": "delete"})
    frame = frames.produce_frame(topic, frames.batch(1, RECORD[:100]))
    taken_us: list[float] = []
    with Connection(broker.bootstrap) as connection:
        while len(taken_us) < 100 or len(taken_us) % LOOK_EVERY or not is_over(len(taken_us)):
            time.sleep(PAUSE_S)
            started = time.perf_counter()
            connection.socket.sendall(frame)
            connection.read_reply()
            taken_us.append((time.perf_counter() - started) * 1e6)
    return taken_us


def _is_clean(folder: Path, topic: str, end_offset: int, begun: float) -> bool:
    if time.monotonic() - begun > TIMEOUT_S:
        raise TimeoutError(f"{topic} was not compacted in {TIMEOUT_S} s")
    path = folder / CLEANER_OFFSETS
    return path.exists() and decode_offsets(path.read_bytes()).get((topic, 0)) == end_offset


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / log_compaction.PARTITION).glob("*.log"))
