"""An encrypted file; implements `kqueue.storage.contract.File`."""

from __future__ import annotations

from kqueue.base.errors import StorageFailed
from kqueue.storage import File, Region
from kqueue.storage.contract import RegionSource
from kqueue_storage_encrypted.format import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    CUT,
    DATA,
    HEADER,
    OVERHEAD,
    Buffer,
    FileKey,
    padding,
    room,
)
from kqueue_storage_encrypted.keys import FolderKey
from kqueue_storage_encrypted.layout import CutLost, Run, Table, cut_runs, find_runs
from kqueue_storage_encrypted.reading import FILL, Known, Reader

_NO_RUNS = (Run(0, 0, HEADER.size, HEADER.size, 0),)


def pack(key: FileKey, place: int, position: int, cut: int, data: Buffer) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Encrypt `data` into frames to be written at `place`, with zero padding at block ends.

    Returns: the bytes to write, and start, end (positions) and place of each frame.
    """
    parts: list[bytes] = []
    frames: list[tuple[int, int, int]] = []
    view = memoryview(data)
    done = 0
    while done < len(view):
        if gap := padding(place):
            parts.append(bytes(gap))
            place += gap
        size = min(len(view) - done, CHUNK_BYTES, room(place) - OVERHEAD)
        parts.append(key.seal(DATA, place, position, cut, view[done : done + size]))
        frames.append((position, position + size, place))
        done += size
        position += size
        place += OVERHEAD + size
    return b"".join(parts), frames


class State:
    """The state of a file in its single writer.

    Attributes:
        key: None: the file is empty; the first append creates the key.
        runs: the last run ends where the file ends.
        broken: the error in the header or a cut. The whole file then reads as damaged bytes.
    """

    __slots__ = ("broken", "key", "known", "runs")

    def __init__(self, key: FileKey | None = None, runs: tuple[Run, ...] = _NO_RUNS, broken: str | None = None) -> None:
        self.key = key
        self.runs = runs
        self.known = Known()
        self.broken = broken

    @property
    def size(self) -> int:
        return self.runs[-1].end

    @classmethod
    def load(cls, inner: File, folder: FolderKey, name: str) -> State:
        """Read the state of an encrypted file. Raises: StorageFailed: the disk failed."""
        file_size = inner.size
        if file_size <= HEADER.size:  # at most part of a header: no write was completed
            return cls()
        key = FileKey.read(folder, inner.read_at(0, HEADER.size))
        if key is None:
            why = (
                f"{name}: damaged at position 0 of the encrypted file: expected the header of a file that was "
                "encrypted in this folder"
            )
        else:
            try:
                return cls(key, find_runs(inner.read_at, file_size, key, name))
            except CutLost as error:
                why = str(error)
        return cls(None, (Run(0, file_size, HEADER.size, file_size, 0),), why)


class EncryptedFile:
    """Encrypts one `inner` file.

    Thread: one thread writes; others may use `sync` and regions meanwhile.
    """

    __slots__ = ("_folder", "_inner", "_name", "_size", "_state")

    def __init__(self, inner: File, folder: FolderKey, name: str, size: int | None) -> None:
        self._inner = inner
        self._folder = folder
        self._name = name
        self._size = size  # valid until the state is loaded
        self._state: State | None = None

    @property
    def size(self) -> int:
        return self._size if self._state is None and self._size is not None else self._loaded().size

    def append(self, data: Buffer) -> int:
        state = self._writable()
        position = state.size
        if not len(data):
            return position
        run = state.runs[-1]
        header = b""
        if state.key is None:
            state.key = FileKey.new(self._folder)
            header = state.key.header()
        packed, frames = pack(state.key, run.place_end, position, run.cut, data)
        self._write(header + packed if header else packed)
        state.runs = (*state.runs[:-1], run._replace(end=position + len(data), place_end=run.place_end + len(packed)))
        for frame in frames:
            self._note(state, run, frame)
        return position

    def read_at(self, position: int, size: int) -> bytes:
        state = self._loaded()
        if state.broken is not None:
            return FILL * max(min(size, state.size - position), 0)
        return self._reader(state).read(position, size) if position < state.size else b""

    def read_all(self) -> bytes:
        """Return all bytes. Raises: StorageFailed: some are damaged; the message says where."""
        state = self._loaded()
        if state.broken is not None:
            raise StorageFailed(state.broken)
        return self._reader(state).read(0, state.size, strict=True) if state.size else b""

    def truncate(self, size: int) -> None:
        state = self._loaded() if size else None
        if state is None:
            self._inner.truncate(0)
            self._replace(State())
            return
        assert size <= state.size, "truncate never grows a file"
        if size == state.size:
            return
        state = self._writable()
        run = state.runs[-1]
        place = self._reader(state).ends_frame(size)
        if place is None:
            self._append_cut(state, size)
            return
        self._inner.truncate(place)
        self._replace(State(state.key, (*state.runs[:-1], run._replace(end=size, place_end=place))))

    def sync(self) -> None:
        self._inner.sync()

    def region(self, position: int, size: int) -> Region:
        state = self._loaded()
        inner = self._inner.region(0, 0).source
        return Region(PlainSource(state, inner, self._name), position, size)

    def age_ms(self) -> int | None:
        return self._inner.age_ms()

    def close(self) -> None:
        self._inner.close()
        if self._state is not None:
            self._state.known.forget()

    # --- internals

    def _loaded(self) -> State:
        if self._state is None:
            self._state = State.load(self._inner, self._folder, self._name)
        return self._state

    def _writable(self) -> State:
        state = self._loaded()
        if state.broken is not None:
            raise StorageFailed(f"can't write to {state.broken}")
        if state.key is None and self._inner.size:
            self._inner.truncate(0)  # part of a header
        return state

    def _reader(self, state: State) -> Reader:
        assert state.key is not None, "what is not empty has a key"
        return Reader(self._inner.read_at, state.key, state.runs, state.known, self._name, owns_tail=True)

    def _replace(self, state: State) -> None:
        if self._state is not None:
            self._state.known.is_cut = True
        self._state = state

    def _write(self, data: bytes) -> None:
        try:
            self._inner.append(data)
        except BaseException:
            self._state = self._size = None  # the end of the file may hold a partial write
            raise

    @staticmethod
    def _note(state: State, run: Run, frame: tuple[int, int, int]) -> None:
        """Cache a frame just written, if all frames before it in its unit are cached."""
        known, place = state.known, frame[2]
        begin = max(place // BLOCK_BYTES * BLOCK_BYTES, run.place)
        if known.tail is None or known.tail.begin != begin:
            if place != begin:
                return
            if known.tail is not None:
                known.keep(known.tail)
            known.tail = Table(begin)
        known.tail.add(*frame)

    def _append_cut(self, state: State, size: int) -> None:
        assert state.key is not None, "what is not empty has a key"
        run = state.runs[-1]
        gap = padding(run.place_end)
        place = run.place_end + gap
        self._write(bytes(gap) + state.key.seal(CUT, place, size, run.cut, b""))
        state.runs = cut_runs(state.runs, size, place)
        state.known.tail = Table(place + OVERHEAD)


class PlainSource:
    """The source of regions: the plain file at the time of their creation. Thread: any."""

    __slots__ = ("_broken", "_inner", "_reader", "_size")

    def __init__(self, state: State, inner: RegionSource, name: str) -> None:
        self._inner = inner
        self._size = state.size
        self._broken = state.broken is not None
        self._reader: Reader | None = None
        if state.key is not None:
            self._reader = Reader(inner.read_at, state.key, state.runs, state.known, name, owns_tail=False)

    def read_at(self, position: int, size: int) -> bytes:
        if self._broken:
            return FILL * max(min(size, self._size - position), 0)
        return self._reader.read(position, size) if self._reader is not None else b""

    def fileno(self) -> int | None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        """Check the approximate places of the first and the last byte."""
        if self._reader is None or size <= 0:
            return True
        first, last = self._reader.place_near(position), self._reader.place_near(position + size - 1)
        return self._inner.is_cached(first, max(last - first, 0) + 1)
