"""Caches ranges of objects: the newest ones in memory, more of them in a folder on disk.

An object is read in chunks of equal size. Threads that want the same chunk wait for one request,
which one of them makes: none waits for a task that is still to run. A reader that goes from chunk
to chunk has the next ones fetched ahead of it; one that jumps about has not, as each chunk costs a
request and its bytes.

The folder is a cache and no more: it is emptied at the start, nothing in it is synced, each file
carries a checksum, and one that is damaged or gone is fetched again. Where the disk is full or
fails, chunks are served from memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import struct
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock

from crc32c import crc32c

from kqueue.base import events
from kqueue.base.settings import MiB
from kqueue.tier.errors import TierCorrupt, TierError
from kqueue.tier.stores.contract import TierStore

CHUNK_BYTES = 1 * MiB
CHUNKS_AHEAD = 4
STEPS_IN_ORDER = 2
"""After so many steps to the next chunk a reader has more fetched ahead. One step says nothing: it
looks for a place in one chunk, and what it reads from there on ends in the next.
"""
MEMORY_BYTES = 32 * MiB
KEYS_FOLLOWED = 1024
_CRC = struct.Struct(">I")
_SUFFIX = ".chunk"
logger = logging.getLogger("kqueue.tier")

ChunkKey = tuple[str, int]
"""An object's key, and the number of a chunk."""
RunLater = Callable[[Callable[[], object]], object]
"""Runs a function in another thread, later or never."""


class ChunkCache:
    """Reads objects of one store through the cache; shared by all readers of a process.

    Args:
        folder: for chunks on disk; None: memory only. It is made, and emptied of earlier chunks.
        disk_bytes, memory_bytes: bounds. One chunk is kept in memory at least.
        run_later: fetches chunks ahead; None: nothing is fetched ahead.
    Attributes: fetched_bytes: from the store, since the start. hits, misses: chunks found, and
        fetched because somebody waited for them.
    Thread: any.
    """

    def __init__(
        self,
        store: TierStore,
        *,
        folder: Path | None = None,
        disk_bytes: int = 0,
        memory_bytes: int = MEMORY_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
        run_later: RunLater | None = None,
    ) -> None:
        self.fetched_bytes = self.hits = self.misses = 0
        self._store = store
        self._chunk_bytes = chunk_bytes
        self._memory_bytes = memory_bytes
        self._run_later = run_later
        self._lock = Lock()
        self._chunks: OrderedDict[ChunkKey, bytes] = OrderedDict()
        self._memory_size = 0
        self._loading: dict[ChunkKey, Future[bytes]] = {}
        self._followed: OrderedDict[str, tuple[int, int]] = OrderedDict()  # last chunk, steps in order
        self._disk = _DiskChunks(folder, disk_bytes) if folder is not None and disk_bytes > 0 else None

    def read(self, key: str, limit: int, position: int, size: int) -> bytes:
        """Return the bytes of an object from `position` on; fewer than `size` only at `limit`.

        Args: limit: the end of the cached part of the object.
        Raises: ObjectNotFound, TierError.
        """
        end = min(position + size, limit)
        if end <= position:
            return b""
        chunk_bytes = self._chunk_bytes
        first, last = position // chunk_bytes, (end - 1) // chunk_bytes
        self._fetch_ahead(key, limit, first, last)
        # Those of this read are fetched at the same time, as far as there are threads.
        self._fetch_later(key, limit, range(first + 1, last + 1))
        if first == last:
            start = first * chunk_bytes
            return self._chunk(key, limit, first)[position - start : end - start]
        parts = [memoryview(self._chunk(key, limit, number)) for number in range(first, last + 1)]
        parts[0] = parts[0][position - first * chunk_bytes :]
        parts[-1] = parts[-1][: end - last * chunk_bytes]
        return b"".join(parts)

    def is_cached(self, key: str, position: int, size: int) -> bool:
        """Return whether a read would not wait for the store, as far as is known."""
        first, last = position // self._chunk_bytes, (position + size - 1) // self._chunk_bytes
        with self._lock:
            return all(self._has((key, number)) for number in range(first, last + 1))

    def expect(self, key: str, limit: int, position: int, size: int) -> None:
        """Fetch the chunks of a range in other threads, but the first, which the caller needs now.

        It looks through that one for the place where a read begins, and then wants the others.
        """
        first, last = position // self._chunk_bytes, (position + size - 1) // self._chunk_bytes
        self._fetch_later(key, limit, range(max(first, 0) + 1, last + 1))

    def fetch_ahead(self, key: str, limit: int) -> None:
        """Fetch the beginning of an object, which will be read next, in another thread."""
        self._fetch_later(key, limit, range(CHUNKS_AHEAD))

    def forget(self, key: str) -> None:
        """Drop the chunks of an object, which is deleted, or was not read right."""
        with self._lock:
            for chunk in [chunk for chunk in self._chunks if chunk[0] == key]:
                self._memory_size -= len(self._chunks.pop(chunk))
            self._followed.pop(key, None)
        if self._disk is not None:
            self._disk.forget(key)

    # --- chunks

    def _has(self, chunk: ChunkKey) -> bool:
        return chunk in self._chunks or (self._disk is not None and self._disk.has(chunk))

    def _chunk(self, key: str, limit: int, number: int, *, is_ahead: bool = False) -> bytes:
        chunk = key, number
        with self._lock:
            data = self._chunks.get(chunk)
            if data is not None:
                self._chunks.move_to_end(chunk)
                self.hits += 1
                return data
            loading = self._loading.get(chunk)
            if loading is None:
                ours = self._loading[chunk] = Future()
        if loading is not None:
            return loading.result()
        return self._load(chunk, limit, ours, is_ahead)

    def _load(self, chunk: ChunkKey, limit: int, loading: Future[bytes], is_ahead: bool) -> bytes:
        key, number = chunk
        start = number * self._chunk_bytes
        try:
            data = self._disk.read(chunk) if self._disk is not None else None
            is_hit = data is not None
            if data is None:
                data = self._fetched(key, start, min(self._chunk_bytes, limit - start))
        except BaseException as error:
            with self._lock:
                del self._loading[chunk]
            # What ends this thread alone, e.g. an interrupt, must not end those that wait for it.
            loading.set_exception(error if isinstance(error, Exception) else TierError(f"{key}: {error!r}"))
            raise
        with self._lock:
            self._keep(chunk, data)
            if not is_ahead:
                self.hits, self.misses = self.hits + is_hit, self.misses + (not is_hit)
            if not is_hit:
                self.fetched_bytes += len(data)
        loading.set_result(data)
        try:
            if not is_hit and self._disk is not None:
                self._disk.write(chunk, data)
        finally:
            with self._lock:
                del self._loading[chunk]  # only now: two threads must not write one file
        return data

    def _fetched(self, key: str, start: int, size: int) -> bytes:
        data = self._store.get_range(key, start, size)
        if len(data) != size:
            raise TierCorrupt(
                f"{self._store.location}/{key}: expected {size} bytes from {start} on, the store gave {len(data)}"
            )
        return data

    def _keep(self, chunk: ChunkKey, data: bytes) -> None:
        self._chunks[chunk] = data
        self._memory_size += len(data)
        while self._memory_size > self._memory_bytes and len(self._chunks) > 1:
            self._memory_size -= len(self._chunks.popitem(last=False)[1])

    # --- ahead

    def _fetch_ahead(self, key: str, limit: int, first: int, last: int) -> None:
        if self._run_later is None:
            return
        with self._lock:
            before, steps = self._followed.get(key, (-1, 0))
            if last != before:
                is_step = before + 1 >= first >= before
                # A reader that begins an object at its start is likely to read on.
                steps = (STEPS_IN_ORDER if first == 0 else steps + 1) if is_step else 0
                self._followed[key] = last, steps
            self._followed.move_to_end(key)
            if len(self._followed) > KEYS_FOLLOWED:
                self._followed.popitem(last=False)
        if last != before and steps >= STEPS_IN_ORDER:
            self._fetch_later(key, limit, range(last + 1, last + 1 + CHUNKS_AHEAD))

    def _fetch_later(self, key: str, limit: int, numbers: range) -> None:
        if self._run_later is None:
            return
        for number in numbers:
            if number * self._chunk_bytes >= limit:
                return
            with self._lock:
                if self._has((key, number)) or (key, number) in self._loading:
                    continue
            self._run_later(partial(self._fetch_quietly, key, limit, number))

    def _fetch_quietly(self, key: str, limit: int, number: int) -> None:
        with self._lock:
            if self._has((key, number)) or (key, number) in self._loading:
                return
        # A failure is that of the reader that comes to this chunk: it asks again and reports it.
        with contextlib.suppress(Exception):
            self._chunk(key, limit, number, is_ahead=True)


class _DiskChunks:
    """Chunks in files, the ones used last are kept. Thread: any."""

    def __init__(self, folder: Path, size_max: int) -> None:
        self._folder = folder
        self._size_max = size_max
        self._lock = Lock()
        self._sizes: OrderedDict[ChunkKey, int] = OrderedDict()
        self._size = 0
        self._has_failed = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob(f"*{_SUFFIX}*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            self._note_failure(error)

    def has(self, chunk: ChunkKey) -> bool:
        return chunk in self._sizes

    def read(self, chunk: ChunkKey) -> bytes | None:
        """Return a chunk; None: it is not there, or damaged."""
        with self._lock:
            if chunk not in self._sizes:
                return None
            self._sizes.move_to_end(chunk)
        try:
            data = self._path(chunk).read_bytes()
        except OSError:
            data = b""
        body = data[_CRC.size :]
        if len(data) > _CRC.size and _CRC.unpack_from(data)[0] == crc32c(body):
            return body
        self._drop(chunk)
        return None

    def write(self, chunk: ChunkKey, data: bytes) -> None:
        """Keep a chunk, as far as the disk lets us; delete those used longest ago."""
        path = self._path(chunk)
        temporary = path.with_suffix(f"{_SUFFIX}.new")
        try:
            temporary.write_bytes(_CRC.pack(crc32c(data)) + data)
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            self._note_failure(error)
            return
        with self._lock:
            self._size += len(data) - self._sizes.pop(chunk, 0)
            self._sizes[chunk] = len(data)
            evicted = []
            while self._size > self._size_max and len(self._sizes) > 1:
                oldest, size = self._sizes.popitem(last=False)
                self._size -= size
                evicted.append(oldest)
        for oldest in evicted:
            self._unlink(oldest)

    def forget(self, key: str) -> None:
        with self._lock:
            chunks = [chunk for chunk in self._sizes if chunk[0] == key]
        for chunk in chunks:
            self._drop(chunk)

    def _note_failure(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            events.TIER_CACHE_FAILED.log(
                logger, "%s: chunks of the tier are not kept on disk: %s", location=str(self._folder), error=error
            )

    def _drop(self, chunk: ChunkKey) -> None:
        with self._lock:
            self._size -= self._sizes.pop(chunk, 0)
        self._unlink(chunk)

    def _unlink(self, chunk: ChunkKey) -> None:
        with contextlib.suppress(OSError):
            self._path(chunk).unlink(missing_ok=True)

    def _path(self, chunk: ChunkKey) -> Path:
        # Keys of objects have slashes and may be longer than a file name.
        return self._folder / f"{hashlib.sha256(chunk[0].encode()).hexdigest()[:32]}-{chunk[1]}{_SUFFIX}"
