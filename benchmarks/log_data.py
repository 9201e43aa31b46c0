"""Sparse logs: real indexes, real batches where they are read, holes elsewhere.

All segments are alike: batches of BATCH_BYTES, each with an index entry but the first, because each
is longer than the index interval. The indexes therefore have as many entries as those of a full
log.
"""

from __future__ import annotations

import os
import random
import re
import struct
import sys
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from kqueue.log.formats.filenames import EPOCHS, INDEX, LOG, SNAPSHOT, TIMEINDEX, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache, encode_epochs
from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log import Log
from kqueue.log.producer_state import ProducerStateManager
from kqueue.records.batch import BATCH_OVERHEAD, CRC_START, HEADER, read_header, stamp
from kqueue.records.builder import build_batch
from kqueue.records.record import Record

START_MS = 1_700_000_000_000
BATCH_RECORDS = 40
BATCH_BYTES = 4_200  # more than index.interval.bytes
_CRC = struct.Struct(">I")
_CRC_POSITION = 17


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="kqueue-benchmark-") as name:
        yield Path(name)


def batch(count: int, value_bytes: int, key: bytes | None = None) -> bytearray:
    return build_batch([Record(number, START_MS, key, bytes(value_bytes), (), -1) for number in range(count)])


def batch_of_bytes(count: int, size: int) -> bytearray:
    """Return a batch of `count` records that takes exactly `size` bytes."""
    value_bytes = last_bytes = (size - BATCH_OVERHEAD) // count - 12
    while True:
        values = [bytes(value_bytes)] * (count - 1) + [bytes(last_bytes)]
        buf = build_batch([Record(number, START_MS, None, value, (), -1) for number, value in enumerate(values)])
        if len(buf) >= size:
            assert len(buf) == size, f"no batch of {size} bytes can be made"
            return buf
        last_bytes += max(size - len(buf) - 8, 1)  # a length field may grow on the way


@dataclass(frozen=True)
class Shape:
    """A log of `segments` segments of `batches` batches; `samples`: numbers of batches, of all of
    its, that are there to be read.
    """

    segments: int
    batches: int
    samples: tuple[int, ...]

    @classmethod
    def draw(cls, rng: random.Random, segments: int, segment_bytes: int, samples: int) -> Shape:
        batches = segment_bytes // BATCH_BYTES
        # never the first of a segment: it has no index entry, and the one before a sample is read
        # as well
        places = [
            number * batches + rng.randrange(1, batches)
            for number in range(segments)
            for _ in range(max(samples // segments, 1))
        ]
        return cls(segments, batches, tuple(sorted(set(places))))

    @property
    def segment_bytes(self) -> int:
        return self.batches * BATCH_BYTES

    @property
    def segment_offsets(self) -> int:
        return self.batches * BATCH_RECORDS

    @property
    def end_offset(self) -> int:
        return self.segments * self.segment_offsets

    @property
    def size(self) -> int:
        return self.segments * self.segment_bytes

    def offset_in(self, sample: int) -> int:
        """Return an offset in the middle of that batch."""
        return sample * BATCH_RECORDS + BATCH_RECORDS // 2


def write_log(folder: Path, shape: Shape) -> None:
    """Write what a clean stop leaves of such a log; the first and the last batch of each segment
    are there too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    template = batch_of_bytes(BATCH_RECORDS, BATCH_BYTES)
    index = _index_bytes(shape.batches)
    by_segment: dict[int, list[int]] = {number: [0, shape.batches - 1] for number in range(shape.segments)}
    for sample in shape.samples:
        number, place = divmod(sample, shape.batches)
        by_segment[number] += [place - 1, place]
    for number, places in by_segment.items():
        base = number * shape.segment_offsets
        (folder / file_name(base, INDEX)).write_bytes(index)
        (folder / file_name(base, TIMEINDEX)).write_bytes(_times_bytes(shape, number))
        with (folder / file_name(base, LOG)).open("wb") as file:
            for place in sorted(set(places)):
                file.seek(place * BATCH_BYTES)
                file.write(_batch_at(template, base + place * BATCH_RECORDS, _time_of(number * shape.batches + place)))
            file.truncate(shape.segment_bytes)
    epochs = LeaderEpochCache()
    epochs.assign(0, 0)
    (folder / EPOCHS).write_bytes(encode_epochs(epochs))
    (folder / file_name(shape.end_offset, SNAPSHOT)).write_bytes(encode_snapshot(ProducerStateManager()))


def _time_of(number: int) -> int:
    return START_MS + number


def _batch_at(template: bytearray, base_offset: int, time_ms: int) -> bytes:
    """Return the batch with other offsets and timestamps."""
    data = bytearray(template)
    header = read_header(data)._replace(base_timestamp=time_ms, max_timestamp=time_ms)
    HEADER.pack_into(data, 0, *header)
    _sign(data)
    stamp(data, 0, base_offset, 0)
    return bytes(data)


def _index_bytes(batches: int) -> bytes:
    """Entries of all batches but the first: last offset relative to the segment, position."""
    entries = array("i", bytes(8 * (batches - 1)))
    entries[0::2] = array("i", range(2 * BATCH_RECORDS - 1, (batches + 1) * BATCH_RECORDS - 1, BATCH_RECORDS))
    entries[1::2] = array("i", range(BATCH_BYTES, batches * BATCH_BYTES, BATCH_BYTES))
    if sys.byteorder == "little":
        entries.byteswap()
    return entries.tobytes()


def _times_bytes(shape: Shape, segment: int) -> bytes:
    """Entries of the same batches: greatest time so far, its batch's last offset relative to the
    segment's base.
    """
    count = shape.batches - 1
    first_ms = _time_of(segment * shape.batches + 1)
    entries: list[int] = [0] * (2 * count)
    entries[0::2] = range(first_ms, first_ms + count)
    entries[1::2] = range(2 * BATCH_RECORDS - 1, (shape.batches + 1) * BATCH_RECORDS - 1, BATCH_RECORDS)
    return struct.pack(">" + "qi" * count, *entries)


# --- a log to compact

KEY_BYTES = 12
VALUE_BYTES = 88
KEYED_BATCH_RECORDS = 1_000


def append_keyed(log: Log, records: int, keys: int, rng: random.Random) -> None:
    """Append records of 100 bytes, keys drawn at random.

    One batch is made by the builder and the keys are then written over, since building each would
    take longer than what is measured.
    """
    names = [b"key-%08d" % number for number in range(keys)]
    template = build_batch(
        [
            Record(number, START_MS, b"@" * KEY_BYTES, b"." * VALUE_BYTES, (), -1)
            for number in range(KEYED_BATCH_RECORDS)
        ]
    )
    places = [place.start() for place in re.finditer(b"@" * KEY_BYTES, template)]
    assert len(places) == KEYED_BATCH_RECORDS, "keys are all there, and nothing else looks like one"
    for _ in range(records // KEYED_BATCH_RECORDS):
        for place, key in zip(places, rng.choices(names, k=KEYED_BATCH_RECORDS), strict=True):
            template[place : place + KEY_BYTES] = key
        _sign(template)
        log.append(template, read_header(template), leader_epoch=0)


def _sign(batch: bytearray) -> None:
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))


def drop_from_memory(folder: Path) -> bool:
    """Ask the kernel to forget the files below `folder`, once they are on disk; False: this
    platform can't.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True
