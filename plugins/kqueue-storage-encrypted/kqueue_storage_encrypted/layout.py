"""Maps positions of a plain file to places in its encrypted file.

A file is a sequence of runs. Each run begins behind a CUT frame, the first one at the start of the
file. Within a run positions rise with places, so a bisection over blocks finds a position. A unit
is the part of a run in one block; its frames are scanned and cached as a `Table`.

Each frame header states its position and must continue the previous frame. Where it does not, the
rest of the block is searched for the next frame that passes authentication, and the bytes between
count as damaged. Bytes behind the last frame count as damaged too: a power failure and damage can't
be distinguished. Log recovery truncates them after a crash, as on a plain disk. A complete file
never becomes shorter without an error.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kqueue_storage_encrypted.format import (
    BLOCK_BYTES,
    CHUNK_BYTES,
    CUT,
    DATA,
    FRAME,
    HEADER,
    OVERHEAD,
    FileKey,
    Frame,
    begins,
    padding,
    read_head,
    room,
)

Read = Callable[[int, int], bytes]
"""Returns bytes of the encrypted file from a place on; fewer only at its end."""


class CutLost(Exception):
    """A damaged CUT frame makes the size of the file unknown; the message names the place."""


class Run(NamedTuple):
    """Positions `start` to `end` (exclusive), in frames from `place` to `place_end`.

    All these frames have this `cut`.
    """

    start: int
    end: int
    place: int
    place_end: int
    cut: int


class Tail(NamedTuple):
    """End of the last frame, end of the plain file, and place of the last CUT frame."""

    place: int
    size: int
    cut: int


class Table:
    """The frames of one unit, in order.

    Thread: one thread adds; others may read meanwhile, because `starts` grows last.
    """

    __slots__ = ("begin", "ends", "places", "starts")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.starts = array("Q")
        self.ends = array("Q")
        self.places = array("Q")

    def add(self, start: int, end: int, place: int) -> None:
        self.ends.append(end)
        self.places.append(place)
        self.starts.append(start)

    def add_found(self, frame: Frame) -> None:
        """Add a frame that was read; end the frame before it at its start at the latest."""
        start = frame.head.position
        if self.ends and self.ends[-1] > start:
            self.ends[-1] = start
        self.add(start, frame.position_end, frame.place)


def find_runs(read: Read, file_size: int, key: FileKey, name: str) -> tuple[Run, ...]:
    """Find the end of a file and its cuts; reads the last block, and one block for each cut.

    Raises: CutLost, and what `read` raises.
    """
    tail = find_tail(read, file_size, key)
    runs: tuple[Run, ...] = (Run(0, 0, HEADER.size, 0, 0),)
    for place, position in find_cuts(read, tail.cut, key, name):
        runs = cut_runs(runs, position, place)
    return (*runs[:-1], runs[-1]._replace(end=tail.size + _room_for(tail.place, file_size), place_end=file_size))


def _room_for(place: int, end: int) -> int:
    """Return how many plain bytes of one append fit between these places."""
    held = 0
    while (
        size := min(CHUNK_BYTES, room(place + padding(place)) - OVERHEAD, end - place - padding(place) - OVERHEAD)
    ) > 0:
        held += size
        place += padding(place) + OVERHEAD + size
    return held


def cut_runs(runs: tuple[Run, ...], position: int, place: int) -> tuple[Run, ...]:
    """Return the runs after a CUT frame at `place` truncates the file to `position`."""
    ended = runs[-1]._replace(place_end=place)
    kept = [run for run in (*runs[:-1], ended) if run.start < position]
    if kept:
        kept[-1] = kept[-1]._replace(end=position)
    return (*kept, Run(position, position, place + OVERHEAD, place + OVERHEAD, place))


def find_tail(read: Read, file_size: int, key: FileKey) -> Tail:
    """Return the end of the last complete frame."""
    end = file_size
    while end > HEADER.size:
        base = max((end - 1) // BLOCK_BYTES * BLOCK_BYTES, HEADER.size)
        frames = deque(walk(read(base, end - base), base, key), maxlen=1)
        if frames:
            last = frames[0]
            return Tail(last.place_end, last.position_end, last.place if last.head.kind == CUT else last.head.cut)
        end = base
    return Tail(HEADER.size, 0, 0)


def find_cuts(read: Read, place: int, key: FileKey, name: str) -> list[tuple[int, int]]:
    """Return place and position of each CUT frame, from the first to the one at `place`.

    Raises: CutLost, and what `read` raises.
    """
    cuts: list[tuple[int, int]] = []
    while place:
        frame = _frame_at(read, place, key)
        if frame is not None and frame.head.kind == CUT:
            position, before = frame.head.position, frame.head.cut
        else:  # damaged: the next frame states the position, the frames before it the previous cut
            after = place + OVERHEAD
            follower = _frame_at(read, after + padding(after), key)
            if follower is None:
                raise CutLost(f"{name}: damaged at position {place}: expected a CUT frame; where it cut can't be told")
            position, before = follower.head.position, find_tail(read, place, key).cut
        if before >= place:
            raise CutLost(f"{name}: damaged at position {place}: a CUT frame names {before} as the one before it")
        cuts.append((place, position))
        place = before
    return cuts[::-1]


def _frame_at(read: Read, place: int, key: FileKey) -> Frame | None:
    """Return the frame at `place`; None: it is incomplete or fails authentication."""
    head = read_head(read(place, FRAME.size), 0)
    if head is None:
        return None
    frame = Frame(head, place)
    return (
        frame if key.unseal(frame, read(place + FRAME.size, frame.place_end - place - FRAME.size)) is not None else None
    )


def first_start(read: Read, begin: int, end: int, key: FileKey) -> int | None:
    """Return the first position in the unit from place `begin` to `end`; None: no valid frame."""
    frame = _frame_at(read, begin, key)
    if frame is None or frame.place_end > end:
        frame = next(walk(read(begin, end - begin), begin, key), None)
    return None if frame is None else frame.head.position


def read_table(read: Read, begin: int, end: int, key: FileKey) -> Table:
    """Return the DATA frames of the unit from place `begin` to `end`."""
    table = Table(begin)
    for frame in walk(read(begin, end - begin), begin, key):
        if frame.head.kind == DATA:
            table.add_found(frame)
    return table


def walk(data: bytes, base: int, key: FileKey) -> Iterator[Frame]:
    """Yield the frames in `data`, which begins at place `base` and is within one block.

    The first frame, CUT frames and frames behind damage are authenticated. Each other frame must
    continue the previous one. It must also have a successor, end with the data, or authenticate. A
    frame may overlap one yielded later.
    """
    frame = _authenticated(data, 0, base, key) or _search(data, 0, base, key)
    while frame is not None:
        at = frame.place_end - base
        ends = at + padding(base + at) >= len(data)
        after = None if ends else _follower(data, at, base, key, frame)
        if after is not None:
            yield frame
        else:
            valid = _authenticated(data, frame.place - base, base, key) is not None
            if valid or ends:
                yield frame
            if not (valid and ends):  # its size may be wrong: search inside it
                after = _search(data, frame.place - base + 1, base, key)
        frame = after


def _follower(data: bytes, at: int, base: int, key: FileKey, before: Frame) -> Frame | None:
    head = read_head(data, at)
    if head is None or at + OVERHEAD + head.size > len(data):
        return None
    cut = before.place if before.head.kind == CUT else before.head.cut
    right_position = head.position <= before.position_end if head.kind == CUT else head.position == before.position_end
    if head.cut != cut or not right_position:
        return None
    return _authenticated(data, at, base, key) if head.kind == CUT else Frame(head, base + at)


def _authenticated(data: bytes, at: int, base: int, key: FileKey) -> Frame | None:
    head = read_head(data, at)
    if head is None or at + OVERHEAD + head.size > len(data):
        return None
    frame = Frame(head, base + at)
    sealed = memoryview(data)[at + FRAME.size : at + OVERHEAD + head.size]
    return frame if key.unseal(frame, sealed) is not None else None


def _search(data: bytes, at: int, base: int, key: FileKey) -> Frame | None:
    return next(
        (frame for place in begins(data, at) if (frame := _authenticated(data, place, base, key)) is not None), None
    )
