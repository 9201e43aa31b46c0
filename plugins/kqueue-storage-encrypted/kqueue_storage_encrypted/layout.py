"""Where the bytes of a plain file stand in its encrypted one.

The file is a row of runs: each begins behind a CUT frame (the first at the file's start), and
within one positions rise with places, so what holds a position is found by bisection over blocks. A
unit is what one block holds of one run; its frames are walked, and kept as a `Table`.

Frames are found by their headers, each of which says where it belongs, and must be the one that
follows. Where it is not, the rest of the block is searched for the next that passes its tag, and
what lies between counts as damaged bytes. So do bytes behind the last frame: a power cut left them,
or damage did, which nobody can tell apart. Whoever keeps logs cuts them off after a crash, as on
any disk; and nothing that was whole ever gets shorter unseen.
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
"""The bytes of the encrypted file from a place on; fewer only where it ends."""


class CutLost(Exception):
    """A CUT frame is damaged so that nobody can tell how long the file is; says where."""


class Run(NamedTuple):
    """Positions `start` to `end` (exclusive) stand in frames between `place` and `place_end`, all
    with this `cut`.
    """

    start: int
    end: int
    place: int
    place_end: int
    cut: int


class Tail(NamedTuple):
    """What the last frame tells: where it ends, where the plain file ends, and the last CUT frame's
    place.
    """

    place: int
    size: int
    cut: int


class Table:
    """The frames of one unit, in order. One thread adds, others may look meanwhile: `starts` grows
    last.
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
        """Add a frame that was read; those before it can't reach into it."""
        start = frame.head.position
        if self.ends and self.ends[-1] > start:
            self.ends[-1] = start
        self.add(start, frame.position_end, frame.place)


def find_runs(read: Read, file_size: int, key: FileKey, name: str) -> tuple[Run, ...]:
    """Look where a file ends, and where it was cut; reads its last block, and one for each cut.
    Raises CutLost, what `read` raises.
    """
    tail = find_tail(read, file_size, key)
    runs: tuple[Run, ...] = (Run(0, 0, HEADER.size, 0, 0),)
    for place, position in find_cuts(read, tail.cut, key, name):
        runs = cut_runs(runs, position, place)
    return (*runs[:-1], runs[-1]._replace(end=tail.size + _room_for(tail.place, file_size), place_end=file_size))


def _room_for(place: int, end: int) -> int:
    """How many bytes of one append stand between these places."""
    held = 0
    while (
        size := min(CHUNK_BYTES, room(place + padding(place)) - OVERHEAD, end - place - padding(place) - OVERHEAD)
    ) > 0:
        held += size
        place += padding(place) + OVERHEAD + size
    return held


def cut_runs(runs: tuple[Run, ...], position: int, place: int) -> tuple[Run, ...]:
    """The runs after a CUT frame at `place` has cut the file to `position`."""
    ended = runs[-1]._replace(place_end=place)
    kept = [run for run in (*runs[:-1], ended) if run.start < position]
    if kept:
        kept[-1] = kept[-1]._replace(end=position)
    return (*kept, Run(position, position, place + OVERHEAD, place + OVERHEAD, place))


def find_tail(read: Read, file_size: int, key: FileKey) -> Tail:
    """The end of the last frame that begins as one and is there in full."""
    end = file_size
    while end > HEADER.size:
        base = max((end - 1) // BLOCK_BYTES * BLOCK_BYTES, HEADER.size)
        found = deque(walk(read(base, end - base), base, key), maxlen=1)
        if found:
            last = found[0]
            return Tail(last.place_end, last.position_end, last.place if last.head.kind == CUT else last.head.cut)
        end = base
    return Tail(HEADER.size, 0, 0)


def find_cuts(read: Read, place: int, key: FileKey, name: str) -> list[tuple[int, int]]:
    """The CUT frames, from the first to the one at `place`: their places, and the positions to
    which they cut.
    """
    cuts: list[tuple[int, int]] = []
    while place:
        frame = _frame_at(read, place, key)
        if frame is not None and frame.head.kind == CUT:
            position, before = frame.head.position, frame.head.cut
        else:  # damaged: the frame that follows it tells where it cut, those before it which cut came before
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
    """The frame at `place` if it is whole and passes its tag."""
    head = read_head(read(place, FRAME.size), 0)
    if head is None:
        return None
    frame = Frame(head, place)
    return (
        frame if key.unseal(frame, read(place + FRAME.size, frame.place_end - place - FRAME.size)) is not None else None
    )


def first_start(read: Read, begin: int, end: int, key: FileKey) -> int | None:
    """The first position in the unit from place `begin` to `end`; None: no frame of it is sound."""
    frame = _frame_at(read, begin, key)
    if frame is None or frame.place_end > end:
        frame = next(walk(read(begin, end - begin), begin, key), None)
    return None if frame is None else frame.head.position


def read_table(read: Read, begin: int, end: int, key: FileKey) -> Table:
    """The frames of a unit from place `begin` to `end`."""
    table = Table(begin)
    for frame in walk(read(begin, end - begin), begin, key):
        if frame.head.kind == DATA:
            table.add_found(frame)
    return table


def walk(data: bytes, base: int, key: FileKey) -> Iterator[Frame]:
    """The frames in `data`, which stands in one block from place `base` on.

    The first is compared with its tag, since nothing tells what it should be, and so are CUT frames
    and those behind damage. Each further one has to follow the one before, and either be followed,
    or end where the data does, or fit its tag. It may reach into one that is found later.
    """
    frame = _compared(data, 0, base, key) or _search(data, 0, base, key)
    while frame is not None:
        at = frame.place_end - base
        ends = at + padding(base + at) >= len(data)
        after = None if ends else _follower(data, at, base, key, frame)
        if after is not None:
            yield frame
        else:
            sound = _compared(data, frame.place - base, base, key) is not None
            if sound or ends:
                yield frame
            if not (sound and ends):  # if its size is wrong, others may stand within
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
    return _compared(data, at, base, key) if head.kind == CUT else Frame(head, base + at)


def _compared(data: bytes, at: int, base: int, key: FileKey) -> Frame | None:
    head = read_head(data, at)
    if head is None or at + OVERHEAD + head.size > len(data):
        return None
    frame = Frame(head, base + at)
    sealed = memoryview(data)[at + FRAME.size : at + OVERHEAD + head.size]
    return frame if key.unseal(frame, sealed) is not None else None


def _search(data: bytes, at: int, base: int, key: FileKey) -> Frame | None:
    return next((frame for place in begins(data, at) if (frame := _compared(data, place, base, key)) is not None), None)
