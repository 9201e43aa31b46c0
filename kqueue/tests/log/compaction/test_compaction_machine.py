"""S5.2: any life of a compacted log against a model of lists and dicts, record by record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kqueue.log.compaction.model import SegmentSource
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.formats.filenames import SNAPSHOT
from kqueue.log.log import Log
from kqueue.log.scanner.batch_scanner import scan
from kqueue.records.batch import ABORT, COMMIT, Record, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.message_set import encode_set
from kqueue.storage import MemoryStorage
from kqueue.tests.log.compaction.helpers import (
    DAY_MS,
    FOLDER,
    committed,
    compact,
    config,
    is_control,
    open_compacted,
    sources_of,
    table,
    units,
)
from kqueue.tests.log.helpers import START_MS, _check_index, _check_timeindex, end_transaction, flush, stable_end
from kqueue.tests.thorough import examples

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
KEYS = st.sampled_from([None, b"", b"a", b"b", b"c", b"d" * 200, b"e"])
VALUES = st.one_of(st.none(), st.binary(max_size=40))
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
PRODUCERS = [1, 2]
TRANSACTIONAL = [100, 101]


@dataclass
class Batch:
    """What the log should hold of one batch. `rows`: the records that stay; `state` of a
    transaction's: committed, aborted or open.
    """

    first: int
    last: int
    rows: list[Record]
    magic: int = 2
    producer: int = -1
    kind: int | None = None  # of a marker
    state: str = "committed"
    transactional: bool = False
    horizon: int | None = None


@dataclass
class Model:
    batches: list[Batch] = field(default_factory=list)

    def records(self) -> list[Record]:
        return [record for batch in self.batches if batch.kind is None for record in batch.rows]

    def markers(self) -> list[int]:
        return [batch.first for batch in self.batches if batch.kind is not None]

    def end(self, producer: int, kind: int, offset: int) -> None:
        for batch in self.batches:
            if batch.producer == producer and batch.state == "open":
                batch.state = "committed" if kind == COMMIT else "aborted"
        self.batches.append(Batch(offset, offset, [], producer=producer, kind=kind, transactional=True))

    def clean(
        self,
        sources: tuple[SegmentSource, ...],
        first_dirty: int,
        capacity: int,
        now: int,
        retention: int,
        last: dict[int, int],
    ) -> int:
        """Do what a compaction should; returns the next first dirty offset."""
        latest: dict[bytes, int] = {}
        clean_to = sources[-1].end_offset
        for record in (
            record for batch in self.batches if batch.kind is None and batch.state != "aborted" for record in batch.rows
        ):
            if record.key is not None and first_dirty <= record.offset < clean_to:
                if record.key not in latest and len(latest) == capacity:
                    clean_to = record.offset
                    break
                latest[record.key] = record.offset
        upto = next(source.end_offset for source in sources if source.end_offset >= clean_to)
        met: set[int] = set()
        left: list[Batch] = []
        for batch in self.batches:
            if batch.last >= upto:
                left.append(batch)
            elif batch.kind is not None:
                left += self._clean_marker(batch, batch.producer in met, now, retention)
                met.discard(batch.producer)
            else:
                if batch.transactional:
                    met.add(batch.producer)
                self._clean_rows(batch, latest, first_dirty, clean_to, now, retention)
                if batch.rows or (batch.producer >= 0 and last.get(batch.producer) == batch.last):
                    left.append(batch)
        self.batches = left
        return clean_to

    def _clean_marker(self, batch: Batch, needed: bool, now: int, retention: int) -> list[Batch]:
        if needed:
            return [batch]
        if batch.horizon is not None and batch.horizon <= now:
            return []
        batch.horizon = now + retention if batch.horizon is None else batch.horizon
        return [batch]

    def _clean_rows(
        self, batch: Batch, latest: dict[bytes, int], first_dirty: int, clean_to: int, now: int, retention: int
    ) -> None:
        def stays(record: Record) -> bool:
            if batch.state == "aborted":
                return False
            if record.offset >= clean_to:
                return True
            if record.key is None or record.offset < latest.get(record.key, -1):
                return False
            if record.value is not None:
                return True
            if batch.magic == 2:
                return batch.horizon is None or batch.horizon > now or batch.last >= clean_to
            return record.offset >= first_dirty or (batch.magic == 1 and record.timestamp + retention > now)

        batch.rows = [record for record in batch.rows if stays(record)]
        has_tombstones = any(record.value is None for record in batch.rows)
        if batch.magic == 2 and batch.horizon is None and has_tombstones and batch.last < clean_to:
            batch.horizon = now + retention


class CompactionMachine(RuleBasedStateMachine):
    """A log's life: what is appended, when it is cleaned, and time."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = MemoryStorage()
        self.model = Model()
        self.now = START_MS
        self.first_dirty = 0
        self.sequences: dict[int, int] = {}
        self.log: Log

    @initialize(sets=st.lists(st.tuples(PAIRS, st.integers(0, 1), st.integers(0, 3)), max_size=4))
    def begin(self, sets: list[tuple[list[tuple[bytes | None, bytes | None]], int, int]]) -> None:
        """What an old broker has left."""
        data, offset = b"", 0
        for pairs, magic, codec in sets:
            records = [
                Record(offset + at, self.now + at if magic else -1, key, value) for at, (key, value) in enumerate(pairs)
            ]
            data += encode_set(records, magic, codec)
            whole = [records] if codec else [[record] for record in records]
            self.model.batches += [Batch(one[0].offset, one[-1].offset, one, magic=magic) for one in whole]
            offset += len(pairs)
        self.storage.make_folder(FOLDER)
        self.storage.open(f"{FOLDER}/00000000000000000000.log", create=True).append(data)
        self.log = open_compacted(self.storage)
        assert self.log.end_offset == offset

    def append(
        self, pairs: list[tuple[bytes | None, bytes | None]], codec: str, timestamp_type: int, **extra: Any
    ) -> None:
        builder = BatchBuilder(codec, timestamp_type=timestamp_type, **extra)
        offset = self.log.end_offset
        times = [self.now + 7 * at % 5 for at in range(len(pairs))]
        rows = []
        for at, (key, value) in enumerate(pairs):
            headers = (("h", value),) if at % 3 == 2 else ()
            builder.append(times[at], key, value, headers)
            sequence = extra.get("base_sequence", -1)
            time = max(times) if timestamp_type else times[at]
            rows.append(Record(offset + at, time, key, value, headers, sequence + at if sequence >= 0 else -1))
        batch = builder.build()
        self.log.append(batch, read_header(batch), leader_epoch=0, client=False)
        transactional = extra.get("transactional", False)
        state = "open" if transactional else "committed"
        producer = extra.get("producer_id", -1)
        self.model.batches.append(Batch(offset, self.log.end_offset - 1, rows, 2, producer, None, state, transactional))

    @rule(pairs=PAIRS, codec=st.sampled_from(CODECS), timestamp_type=st.integers(0, 1))
    def produce(self, pairs: list[tuple[bytes | None, bytes | None]], codec: str, timestamp_type: int) -> None:
        self.append(pairs, codec, timestamp_type)

    @rule(pairs=PAIRS, codec=st.sampled_from(CODECS), producer=st.sampled_from(PRODUCERS + TRANSACTIONAL * 2))
    def produce_in_sequence(self, pairs: list[tuple[bytes | None, bytes | None]], codec: str, producer: int) -> None:
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(pairs)
        self.append(
            pairs,
            codec,
            0,
            producer_id=producer,
            epoch=0,
            base_sequence=sequence,
            transactional=producer in TRANSACTIONAL,
        )

    @rule(producer=st.sampled_from(TRANSACTIONAL), kind=st.sampled_from([ABORT, COMMIT]))
    def end_transaction(self, producer: int, kind: int) -> None:
        if any(batch.producer == producer and batch.state == "open" for batch in self.model.batches):
            self.model.end(producer, kind, self.log.end_offset)
            end_transaction(self.log, kind, producer, time_ms=self.now)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(hours=st.integers(1, 40))
    def let_time_pass(self, hours: int) -> None:
        self.now += hours * 3_600_000

    @rule(
        dedupe_bytes=st.sampled_from([72, 120, 1 << 14]),
        segment_bytes=st.sampled_from([1, 600, 1 << 20]),
        io_buffer_bytes=st.sampled_from([1, 150, 1 << 14]),
        forget=st.booleans(),
    )
    def clean(self, dedupe_bytes: int, segment_bytes: int, io_buffer_bytes: int, forget: bool) -> None:
        self.log.roll()
        flush(self.log)
        sources = sources_of(self.storage, stable_end(self.log))
        if not sources or sources[-1].end_offset < self.first_dirty:
            return
        producers = dict(self.log.producers.items())
        last = (
            {} if forget else {number: one.batches[-1].last_offset for number, one in producers.items() if one.batches}
        )
        there = {number for number, offset in last.items() if any(batch.last == offset for batch in self.model.batches)}
        view, end_offset = committed(self.log), self.log.end_offset
        records_max = sources[-1].end_offset - self.first_dirty
        capacity = OffsetMap(dedupe_bytes, config().load_factor, records_max=records_max).capacity
        clean_to = self.model.clean(sources, self.first_dirty, capacity, self.now, DAY_MS, last)
        done = compact(
            self.storage,
            sources=sources,
            first_dirty=self.first_dirty,
            now_ms=self.now,
            last_batches=last,
            dedupe_bytes=dedupe_bytes,
            segment_bytes=segment_bytes,
            io_buffer_bytes=io_buffer_bytes,
        )
        assert done.clean_to == clean_to
        self.first_dirty = clean_to
        for entry in self.storage.list(FOLDER):
            if entry.name.endswith(SNAPSHOT):  # so that producers come from the batches
                self.storage.remove(f"{FOLDER}/{entry.name}")
        self.log = open_compacted(self.storage, recovery_point=end_offset)
        assert self.log.end_offset == end_offset
        assert not self.log.damage
        if not forget:
            assert {number: one.batches[-1][:2] for number, one in self.log.producers.items() if number in there} == {
                number: producers[number].batches[-1][:2] for number in there
            }
        self.check_files()
        assert table(committed(self.log)) == table(view)
        assert [record for record in committed(self.log) if record not in view] == []

    def check_files(self) -> None:
        remaining = list(units(self.storage))
        assert [
            record for unit, records in remaining if not is_control(unit) for record in records
        ] == self.model.records()
        assert [
            records[0].offset for unit, records in remaining if is_control(unit) and records
        ] == self.model.markers()
        horizons = {
            unit.last_offset: unit.delete_horizon_ms for unit, records in remaining if unit.magic == 2 and records
        }  # type: ignore[union-attr]
        assert horizons == {
            batch.last: batch.horizon
            for batch in self.model.batches
            if batch.magic == 2 and (batch.rows or batch.kind is not None)
        }
        for number, segment in enumerate(self.log.segments[:-1]):
            placed = {batch.position: batch.header for batch in scan(segment.log, 0, segment.size)}
            _check_index(segment, placed, 200)
            _check_timeindex(segment, placed, sealed=number + 1 < len(self.log.segments))

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.check_files()


TestCompaction = CompactionMachine.TestCase
TestCompaction.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
