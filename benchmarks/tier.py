"""Tiered storage: copies, cold reads, the first byte, and what a store charges for.

The store is a folder of this machine. Where latency counts, a store that answers as late as an
object store takes the place of the network; its delays are drawn from a seed.
"""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from benchmarks import tier_readers
from benchmarks.log_data import START_MS, batch_of_bytes, drop_from_memory, temporary_folder
from benchmarks.results import Figure, Row
from kqueue.base.clock import SystemClock
from kqueue.base.settings import MiB
from kqueue.log.config import LogConfig
from kqueue.log.log import Log
from kqueue.records.batch import read_header
from kqueue.storage import LocalStorage
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.copier import SegmentToCopy, copy_segment
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierReader
from kqueue.tier.stores.address import open_store
from kqueue.tier.stores.contract import Buffer, Object, ObjectEntry, TierStore, Version

SIZE = 1 << 30
QUICK_SIZE = 128 * MiB
SEGMENT_BYTES = 64 * MiB
BATCH_BYTES = 16_384
BATCH_RECORDS = 16
FETCH_BYTES = 1 * MiB
FIRST_BYTES = 300
READ_AHEAD_THREADS = 4
READ_CPU_AIM = 3.0
"""CPU s/GB of cold reads: their bytes are checked, copied once more, and kept in the cache. The
local rate to compare with is the disk's: 380 MB/s here, 1,280 MB/s there.
"""
REQUEST_MS = (12.0, 0.5)
"""Median, and sigma of the logarithm, of a request to an object store in the same region; a
hundredth of them takes 38 ms or more."""
_PARTITION = TieredPartition("bench", bytes(16), 0)


class CountingStore:
    """Passes all calls on, and counts requests and bytes; waits before each as long as `delay_s`
    says (seconds; None: not at all).
    """

    def __init__(self, store: TierStore, rng: random.Random | None = None) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.location = store.location
        self._store = store
        self._rng = rng

    def _count(self, what: str, size: int) -> None:
        self.requests[what] += 1
        self.bytes[what] += size
        if self._rng is not None:
            median_ms, sigma = REQUEST_MS
            time.sleep(median_ms / 1000 * self._rng.lognormvariate(0, sigma))

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        self._count("put", size)
        self._store.put(key, parts, size)

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        self._count("put", len(body))
        return self._store.put_if(key, body, expected)

    def get(self, key: str, *, max_bytes: int) -> Object:
        found = self._store.get(key, max_bytes=max_bytes)
        self._count("get", len(found.body))
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._count("get", length)
        return self._store.get_range(key, start, length)

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        self._count("list", 0)
        return self._store.list(prefix)

    def list_folders(self, prefix: str) -> Sequence[str]:
        self._count("list", 0)
        return self._store.list_folders(prefix)

    def delete(self, keys: Sequence[str]) -> None:
        self._count("delete", 0)
        self._store.delete(keys)

    def close(self) -> None:
        self._store.close()


def steps(*, quick: bool) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield the steps; `quick`: with an eighth of the data."""
    size = QUICK_SIZE if quick else SIZE
    with temporary_folder() as folder:
        log = _write_log(folder / "local", size)
        store = CountingStore(open_store((folder / "tier").as_uri()))
        manifest = Manifest.open(store, _PARTITION)
        yield "copies", lambda: _copies(store, manifest, log)
        yield "cold reads", lambda: _cold_reads(store, manifest, log, folder)
        yield "first byte", lambda: _first_bytes(folder / "tier")
        yield "requests", lambda: _costs(store, manifest, log)
        log.close()
    yield "readers of the tier", tier_readers.row


def _write_log(folder: Path, size: int) -> Log:
    config = LogConfig.of(segment_bytes=SEGMENT_BYTES)
    log = Log.open(LocalStorage(folder), "bench-0", config, SystemClock())
    batch = batch_of_bytes(BATCH_RECORDS, BATCH_BYTES)
    header = read_header(batch)._replace(max_timestamp=START_MS)
    for _ in range(size // BATCH_BYTES):
        log.append(batch, header, leader_epoch=0)
    log.roll()
    return log


def _segments(log: Log) -> Iterator[SegmentToCopy]:
    for segment, following in pairwise(log.segments):
        yield SegmentToCopy(
            log.storage,
            log.folder,
            segment.base,
            segment.base,
            following.base,
            segment.size,
            log.epochs.entries(),
            log.segments.snapshots.offsets,
        )


def _copies(store: CountingStore, manifest: Manifest, log: Log) -> Row:
    manifest.claim(0, Lineage(log.epochs.entries(), 0, log.end_offset))
    copied = 0
    with _measured() as spent:
        for number, segment in enumerate(_segments(log)):
            entry = copy_segment(
                store, manifest, segment, object_id=f"{number:032x}", leader_epoch=0, broker=1, now_ms=START_MS
            )
            copied += entry.size
    seconds, cpu_s = spent
    return Row(
        "copies into a folder",
        [Figure(copied / 1e6 / seconds, "MB/s"), Figure(cpu_s / (copied / 1e9), "CPU s/GB")],
        f"segments of {SEGMENT_BYTES // MiB} MiB, one after the other, synced; all checksums compared first",
    )


def _cold_reads(store: CountingStore, manifest: Manifest, log: Log, folder: Path) -> Row:
    end, size = manifest.end_offset, 0
    for segment in log.segments:
        segment.files.close()
    drop_from_memory(folder)
    offset = log.start_offset
    with _measured() as local_spent:
        while offset < end:
            read = log.read(offset, FETCH_BYTES, end_offset=end)
            offset = read.next_offset
            size += len(read.read())
    drop_from_memory(folder)
    with ThreadPoolExecutor(READ_AHEAD_THREADS) as executor:
        chunks = ChunkCache(store, folder=folder / "cache", disk_bytes=2 * SIZE, run_later=executor.submit)
        reader, offset = TierReader(store, chunks), manifest.start_offset
        with _measured() as cold:
            while offset < end:
                offset = reader.read(manifest, offset, FETCH_BYTES, end_offset=end).next_offset
        offset = manifest.start_offset
        with _measured() as again:
            while offset < end:
                offset = reader.read(manifest, offset, FETCH_BYTES, end_offset=end).next_offset
    local_rate, cold_rate, again_rate = (size / 1e6 / spent[0] for spent in (local_spent, cold, again))
    return Row(
        "reads of 1 MiB from the start to the end",
        [
            Figure(local_rate, "MB/s, local, not in memory"),
            Figure(cold_rate, "MB/s, from the tier"),
            Figure(cold_rate / local_rate, "of the local rate"),
            Figure(again_rate, "MB/s, from the tier once more, out of the cache"),
            Figure(cold[1] / (size / 1e9), "CPU s/GB, from the tier", at_most=READ_CPU_AIM),
        ],
        "checksums of all batches are compared",
    )


def _first_bytes(tier: Path) -> Row:
    store = CountingStore(open_store(tier.as_uri()), random.Random(7))
    rng = random.Random(8)
    manifest = Manifest.open(store, _PARTITION)
    cold: list[float] = []
    warm: list[float] = []
    with ThreadPoolExecutor(READ_AHEAD_THREADS) as executor:
        few_chunks = ChunkCache(store, memory_bytes=8 * MiB, run_later=executor.submit)
        warm_reader = TierReader(store, few_chunks)
        for offset in range(0, manifest.end_offset, BATCH_RECORDS * (SEGMENT_BYTES // BATCH_BYTES)):
            warm_reader.read(manifest, offset, 1, end_offset=manifest.end_offset)
        for _ in range(FIRST_BYTES):
            for spent, is_warm in ((cold, False), (warm, True)):
                new = TierReader(store, ChunkCache(store, run_later=executor.submit))
                reader = warm_reader if is_warm else new
                offset = rng.randrange(manifest.end_offset)
                began = time.perf_counter()
                reader.read(manifest, offset, FETCH_BYTES, end_offset=manifest.end_offset)
                spent.append((time.perf_counter() - began) * 1000)
    figures = []
    for spent, what in ((cold, "indexes not in memory"), (warm, "in memory")):
        spent.sort()
        figures += [
            Figure(spent[len(spent) // 2], f"ms p50, {what}"),
            Figure(spent[len(spent) * 99 // 100], f"ms p99, {what}"),
        ]
    return Row(
        "first bytes of a random place",
        figures,
        f"of a store that answers after {REQUEST_MS[0]:.0f} ms in the median; two requests, or one",
    )


def _costs(store: CountingStore, manifest: Manifest, log: Log) -> Row:
    size = sum(segment.size for segment in manifest.segments())
    gigabytes = size / 1e9
    figures = [
        Figure(store.requests["put"] / gigabytes, "puts/GB copied (segments, manifests)"),
        Figure(store.bytes["put"] / size, "bytes put per byte of log"),
        Figure(store.requests["get"] / 2 / gigabytes, "gets/GB read"),
        Figure(store.bytes["get"] / size, "bytes got per byte of log"),
    ]
    before = store.requests["delete"] + store.requests["put"]
    manifest.raise_start(0, log.end_offset)
    while manifest.delete_below_start(0):
        pass
    deleted = store.requests["delete"] + store.requests["put"] - before
    figures.append(Figure(deleted / gigabytes, "puts and deletes/GB deleted"))
    return Row("requests to the store", figures, f"segments of {SEGMENT_BYTES // MiB} MiB, chunks of 1 MiB")


@contextmanager
def _measured() -> Iterator[list[float]]:
    """Yield a list that gets seconds and CPU seconds of this process at the end."""
    spent: list[float] = []
    began, cpu = time.perf_counter(), _cpu_s()
    yield spent
    spent += [time.perf_counter() - began, _cpu_s() - cpu]


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
