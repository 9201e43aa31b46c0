"""S5.2: the compiled loops of compaction say what the plain ones say, and survive whatever bytes
they are shown.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from kqueue.base.errors import CorruptBatch
from kqueue.log.compaction import engine as engines
from kqueue.log.compaction import python_engine
from kqueue.log.compaction.engine import PYTHON, CompactionEngine
from kqueue.log.compaction.offset_map import OffsetMap
from kqueue.log.formats.filenames import CLEANED, LOG, file_name
from kqueue.records.batch import BATCH_OVERHEAD, HEADER, BatchHeader, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.records.record import decode_records
from kqueue.records.varints import encode
from kqueue.tests.log.compaction import test_compaction_machine
from kqueue.tests.log.compaction.helpers import DAY_MS, FOLDER, new_log, put, task
from kqueue.tests.log.helpers import START_MS
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

np: Any = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.log.compaction import compiled_engine, kernels  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the first run compiles

LONG_MAX = 2**63 - 1
MEMORY = 1 << 16
KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"eight by", b"k" * 300]), st.binary(max_size=20))
Row = tuple[bytes | None, bytes | None, int, int]  # key, value, time, offsets to leave out before it
ROWS = st.lists(
    st.tuples(
        KEYS, st.one_of(st.none(), st.binary(max_size=200)), st.integers(-1, 2**45), st.sampled_from([0, 0, 0, 1, 90])
    ),
    min_size=1,
    max_size=30,
)


def build(rows: list[Row], base_offset: int = 0, **settings: Any) -> tuple[bytes, BatchHeader]:
    """The records of a batch, and its header."""
    builder = BatchBuilder(base_offset=base_offset, **settings)
    offset = base_offset
    for key, value, time, gap in rows:
        offset += gap
        builder.append(time, key, value, [("name", value)] if gap else (), offset)
        offset += 1
    data = bytes(builder.build())
    return data[BATCH_OVERHEAD:], read_header(data)


def build_all(batches: list[list[Row]], start: int) -> list[tuple[bytes, BatchHeader]]:
    maps = []
    for rows in batches:
        maps.append(build(rows, start))
        start = maps[-1][1].next_offset
    return maps


def fill(
    engine: CompactionEngine, batches: list[tuple[bytes, BatchHeader]], first_offset: int, memory_bytes: int
) -> OffsetMap:
    """A map of the batches from `first_offset` on, up to where it was full."""
    offset_map = engine.make_map(memory_bytes, 0.9, start_offset=first_offset)
    for data, header in batches:
        if header.last_offset >= first_offset:
            offset_map.end_offset = engine.index_records(offset_map, data, header, first_offset)
            if offset_map.end_offset < header.next_offset:
                break
    return offset_map


@settings(max_examples=examples(150), deadline=None)
@given(
    batches=st.lists(ROWS, min_size=1, max_size=5),
    start=st.integers(0, 2**40),
    dirty=st.floats(0, 1),
    log_start=st.floats(0, 1),
    slots=st.sampled_from([3, 5, 10, 2_000]),
    keep_tombstones=st.booleans(),
)
def test_both_engines_keep_the_same(
    batches: list[list[Row]], start: int, dirty: float, log_start: float, slots: int, keep_tombstones: bool
) -> None:
    built = build_all(batches, start)
    length = built[-1][1].next_offset - start
    first_offset, start_offset = start + int(dirty * length), start + int(log_start * length)
    plain, compiled = (fill(engine, built, first_offset, slots * 24) for engine in (PYTHON, compiled_engine.ENGINE))
    assert (plain.count, plain.records, plain.end_offset) == (compiled.count, compiled.records, compiled.end_offset)
    assert plain.capacity == compiled.capacity
    for data, header in built:
        for keep in (keep_tombstones, not keep_tombstones):
            expected = PYTHON.kept(plain, data, header, start_offset, keep)
            assert compiled_engine.ENGINE.kept(compiled, data, header, start_offset, keep) == expected


def test_many_records_in_one_batch() -> None:
    """More than are staged at a time; each key's last record stays."""
    count = 3 * kernels.STAGED + 7
    rows: list[Row] = [(b"%d" % (number % 700), b"x", number, 0) for number in range(count)]
    data, header = build(rows, 5)
    offset_map = fill(compiled_engine.ENGINE, [(data, header)], 5, 1 << 20)
    assert (offset_map.count, offset_map.records, offset_map.end_offset) == (700, count, 5 + count)
    assert offset_map.get_all([b"0", b"699", b"700", None]) == [5 + 2_800, 5 + 2_799, -1, -1]
    by_marks = compiled_engine.kept(offset_map, data, header, 0, True)
    assert by_marks.records == 700
    assert by_marks == PYTHON.kept(fill(PYTHON, [(data, header)], 5, 1 << 20), data, header, 0, True)
    offset_map.start_offset = header.next_offset  # so that each key has to be asked for
    assert compiled_engine.kept(offset_map, data, header, 0, True) == by_marks


def test_the_map_fills_up_within_staged_records() -> None:
    rows: list[Row] = [(b"%d" % (number // 2), b"x", number, 0) for number in range(2_500)]
    data, header = build(rows, 0)
    offset_map = compiled_engine.ENGINE.make_map(24 * 2_003, 0.5)
    assert offset_map.capacity == 1_001
    offset_map.capacity = 1_000
    assert compiled_engine.index_records(offset_map, data, header, 0) == 2_000  # a thousand keys, two records each
    assert (offset_map.count, offset_map.records) == (1_000, 2_000)
    assert offset_map.put(b"0", 7_000)
    assert not offset_map.put(b"1000", 7_001)
    assert (offset_map.get(b"0"), offset_map.get(b"999"), offset_map.get(b"1000")) == (7_000, 1_999, -1)


def test_map_against_a_dictionary() -> None:
    offset_map = compiled_engine.ENGINE.make_map(24 * 1_200, 0.9)
    model: dict[bytes, int] = {}
    for offset in range(3_000):
        key = (offset * 7_919 % 1_000).to_bytes(offset % 3 + 2, "big")
        assert offset_map.put(key, offset) == (key in model or len(model) < offset_map.capacity)
        if key in model or len(model) < offset_map.capacity:
            model[key] = offset
    assert offset_map.count == len(model) == offset_map.capacity
    assert {key: offset_map.get(key) for key in model} == model


def test_each_map_hashes_in_its_own_way() -> None:
    one, other = (compiled_engine.ENGINE.make_map(MEMORY, 0.9) for _ in range(2))
    assert one.seed.tobytes() != other.seed.tobytes()  # type: ignore[attr-defined]


# --- whole cleanings, where many small batches are gone through at once

PAIRS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=60))), min_size=1, max_size=4)
KINDS = st.fixed_dictionaries(
    {},
    optional={
        "codec": st.sampled_from(["gzip", "lz4"]),
        "producer_id": st.sampled_from([1, 2]),
        "timestamp_type": st.just(1),
        "delete_horizon_ms": st.sampled_from([START_MS - 5, START_MS + 10 * DAY_MS]),
    },
)


@settings(max_examples=examples(120), deadline=None)
@given(
    batches=st.lists(st.tuples(PAIRS, KINDS), min_size=1, max_size=40),
    rolls=st.sets(st.integers(0, 39), max_size=3),
    dirty=st.floats(0, 1),
    log_start=st.sampled_from([0, 0, 1, 5]),
    slots=st.sampled_from([5, 11, 2_000]),
    io_buffer_bytes=st.sampled_from([300, 5_000, 1 << 20]),
    last_batches=st.booleans(),
)
def test_both_engines_write_the_same_files(
    batches: list[Any],
    rolls: set[int],
    dirty: float,
    log_start: int,
    slots: int,
    io_buffer_bytes: int,
    last_batches: bool,
) -> None:
    storage, log = new_log()
    last: dict[int, int] = {}
    for number, (pairs, kind) in enumerate(batches):
        producer_id = kind.get("producer_id", -1)
        settings = {**kind, "epoch": 0, "base_sequence": 100 * number} if producer_id >= 0 else kind
        builder = BatchBuilder(**settings)
        for key, value in pairs:
            builder.append(START_MS + number, key, value)
        batch = builder.build()
        appended = log.append(batch, read_header(batch), leader_epoch=0, client=False)
        if producer_id >= 0 and last_batches:
            last[producer_id] = appended.last_offset
        if number in rolls:
            log.roll()
    log.roll()
    asked = {
        "first_dirty": min(int(dirty * log.end_offset), log.end_offset),
        "start_offset": log_start,
        "dedupe_bytes": slots * 24,
        "io_buffer_bytes": io_buffer_bytes,
        "last_batches": last,
    }
    plain, compiled = (_cleaned(storage, engine=name, **asked) for name in ("python", "fast"))
    assert compiled == plain


def _cleaned(storage: Any, **asked: Any) -> tuple[Any, ...]:
    """What a cleaning says and writes; it is not swapped in."""
    done = task(storage, **asked)()
    files = {
        entry.name: storage.read(f"{FOLDER}/{entry.name}")
        for entry in storage.list(FOLDER)
        if entry.name.endswith(CLEANED)
    }
    stats = done.stats
    return (
        done.groups,
        done.clean_to,
        (stats.records_read, stats.records_kept, stats.map_entries, stats.bytes_written),
        files,
    )


def test_any_sequence_of_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `test_model` shows for the plain loops."""
    monkeypatch.setattr("kqueue.log.compaction.compaction_task.select_engine", lambda *_: compiled_engine.ENGINE)
    run_state_machine_as_test(
        test_compaction_machine.CompactionMachine,
        settings=settings(max_examples=examples(15), stateful_step_count=25, deadline=None),
    )


def test_many_small_batches_are_processed_in_one_call() -> None:
    """Not one by one: the walk yields the last of each segment, and what is out of the ordinary."""
    storage, log = new_log()
    for number in range(3_000):
        put(log, (b"%d" % (number % 50), b"v" * (number % 3)))
    put(log, (b"1", None))
    log.roll()
    calls: list[int] = []

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return compiled_engine.kept(*arguments)

    asked = task(storage, engine="fast", io_buffer_bytes=1 << 20)
    engine = dataclasses.replace(compiled_engine.ENGINE, kept=counted)
    done = _run(asked, engine)
    assert (done.stats.records_read, done.stats.records_kept) == (3_001, 50)
    assert len(calls) == 1


def _run(asked: Any, engine: CompactionEngine) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kqueue.log.compaction.compaction_task.select_engine", lambda *_: engine)
        return asked()


@for_each("damage", [0, 8, 16, 17, 23, 57, 61, 65, 70])
def test_damage_among_small_batches_is_named(damage: int) -> None:
    """S5.2: the file and the position of the batch, as if it had been met alone."""
    storage, log = new_log()
    for number in range(50):
        put(log, (b"%02d" % number, b"v"))
    log.roll()
    path = f"{FOLDER}/{file_name(0, LOG)}"
    data = bytearray(storage.read(path))
    size = len(data) // 50
    data[20 * size + damage] ^= 0x81
    file = storage.open(path)
    file.truncate(0)
    file.append(data)
    messages = []
    for name in ("python", "fast"):
        with pytest.raises(CorruptBatch, match=f"position {20 * size}") as caught:
            task(storage, engine=name, io_buffer_bytes=1 << 20)()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


# --- hostile bytes


def answers(engine: CompactionEngine, data: bytes, header: BatchHeader) -> list[object]:
    """What the engine says of these bytes: in a fresh map, in a map that knows them, and in one
    that has to be asked key by key.
    """
    outcomes: list[object] = []
    offset_map = engine.make_map(MEMORY, 0.9)
    for window in (True, False):
        try:
            if window:
                offset_map.end_offset = engine.index_records(offset_map, data, header, 0)
                outcomes.append((offset_map.count, offset_map.records, offset_map.end_offset))
            else:
                offset_map.start_offset = LONG_MAX
            outcomes.append(engine.kept(offset_map, data, header, 0, False))
        except CorruptBatch:
            outcomes.append(CorruptBatch)
    return outcomes


def is_whole(data: bytes, header: BatchHeader) -> bool:
    try:
        return bool(list(decode_records(data, header)))
    except CorruptBatch:
        return False


HOSTILE = st.one_of(
    st.just(b""),
    st.binary(min_size=1, max_size=12),
    st.sampled_from(
        [
            b"\xff" * 12,
            b"\x80" * 12,
            b"\xfe\xff\xff\xff\x0f",
            b"\xff\xff\xff\xff\x0f",
            encode(2**31 - 1),
            encode(-(2**31)),
        ]
    ),
)


@pytest.mark.long
@settings(max_examples=examples(400), deadline=None)
@given(
    rows=ROWS,
    at=st.floats(0, 1),
    cut=st.integers(0, 12),
    junk=HOSTILE,
    claimed=st.sampled_from([0, 0, 0, -1, 1, 2**31 - 2]),
)
def test_bytes_that_are_not_records(rows: list[Row], at: float, cut: int, junk: bytes, claimed: int) -> None:
    """Never a crash; refused where the plain loops refuse, and what is taken is as they take it."""
    data, header = build(rows)
    place = int(at * len(data))
    data = data[:place] + junk + data[place + cut :]
    count = max(header.record_count + claimed, 0)
    header = header._replace(record_count=count, last_offset_delta=max(header.last_offset_delta, count - 1))
    plain, compiled = answers(PYTHON, data, header), answers(compiled_engine.ENGINE, data, header)
    for expected, actual in zip(plain, compiled, strict=False):
        if expected is CorruptBatch or actual is CorruptBatch:
            assert actual is CorruptBatch
            assert not is_whole(data, header)
            break
        assert actual == expected


@pytest.mark.long
@settings(max_examples=examples(200), deadline=None)
@given(rows=ROWS, number=st.integers(0, 8), at=st.floats(0, 1), junk=HOSTILE, cut=st.integers(0, 12))
def test_small_batches_that_are_not_records(rows: list[Row], number: int, at: float, junk: bytes, cut: int) -> None:
    """Among whole ones, with a right checksum: refused where the plain loops refuse, and else the
    same files.
    """
    storage, log = new_log()
    for count in range(9):
        put(log, (b"%d" % (count % 4), b"v" * count))
        if count == number:
            data, header = build(rows)
            place = int(at * len(data))
            records = data[:place] + junk + data[place + cut :]
            hostile = bytearray(BATCH_OVERHEAD) + records
            HEADER.pack_into(hostile, 0, *header._replace(batch_length=len(hostile) - 12))
            hostile[17:21] = crc32c(hostile[21:]).to_bytes(4, "big")
            log.append(hostile, read_header(hostile), leader_epoch=0, client=False)
    log.roll()
    outcomes = []
    for name in ("python", "fast"):
        try:
            outcomes.append(_cleaned(storage, engine=name, io_buffer_bytes=1 << 16))
        except CorruptBatch as error:
            outcomes.append(type(error))
    if outcomes[0] != outcomes[1]:
        assert outcomes[1] is CorruptBatch
        assert not is_whole(records, header)


@settings(max_examples=examples(200), deadline=None)
@given(rows=ROWS, place=st.floats(0, 1), flip=st.integers(1, 255), cut=st.booleans())
def test_nothing_outside_of_the_buffer_is_read(rows: list[Row], place: float, flip: int, cut: bool) -> None:
    """The same bytes between different neighbours give the same answer."""
    data, header = build(rows)
    at = int(place * (len(data) - 1))
    data = data[:at] if cut else data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
    seed = np.frombuffer(bytes(16), np.uint64)
    seen = []
    for filler in (b"\x00", b"\xff", b"\x01", b"\x7f"):
        room = np.frombuffer(filler * 64 + data + filler * 64, np.uint8)[64 : 64 + len(data)]
        slots, stage = np.zeros(3 * 100, np.uint64), np.zeros((kernels.STAGED, 4), np.uint64)
        indexed = kernels.index_batch(
            slots, stage, seed, 0, 90, room, header.record_count, 0, header.last_offset_delta, 0
        )
        stay = np.ones(header.last_offset_delta + 1, np.uint8)
        out = np.zeros(len(data) + 128, np.uint8)
        kept = kernels.keep_records(
            room, header.record_count, header.last_offset_delta, stay, True, True, out[64 : 64 + len(data)]
        )
        assert not out[:64].any()
        assert not out[64 + len(data) :].any()
        seen.append((indexed, kept, slots.tobytes(), out.tobytes()))
    assert len(set(seen)) == 1


def test_offsets_out_of_range_are_refused() -> None:
    data, header = build([(b"k", b"v", 1, 0)])
    offset_map = compiled_engine.ENGINE.make_map(MEMORY, 0.9)
    for base_offset in (-1, -(2**63), LONG_MAX):
        with pytest.raises(CorruptBatch, match="base offset"):
            compiled_engine.index_records(offset_map, data, header._replace(base_offset=base_offset), 0)
    assert offset_map.count == 0


def test_claimed_counts_cost_no_memory() -> None:
    """A header that names two thousand million records has no bytes set aside for them."""
    data, header = build([(b"k", b"v", 1, 0)])
    claimed = header._replace(record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    offset_map = compiled_engine.ENGINE.make_map(MEMORY, 0.9)
    with pytest.raises(CorruptBatch, match="2147483647 whole records"):
        compiled_engine.kept(offset_map, data, claimed, 0, True)


# --- choosing


def test_fast_is_what_auto_means_where_it_is_installed() -> None:
    assert engines.select_engine("auto") is engines.select_engine("fast") is compiled_engine.ENGINE
    assert (
        engines.select_engine("auto", engines.FAST_BYTES_MIN)
        is engines.select_engine("fast", 1)
        is compiled_engine.ENGINE
    )
    assert engines.select_engine("auto", engines.FAST_BYTES_MIN - 1) is PYTHON
    assert isinstance(compiled_engine.ENGINE.make_map(MEMORY, 0.9), compiled_engine.CompiledOffsetMap)
    assert compiled_engine.ENGINE.name == "fast"
    assert engines.select_engine("python").kept is python_engine.kept


def test_importing_the_task_does_not_import_numba() -> None:
    """The broker's process never imports numba; the compaction's process does."""
    code = (
        "import sys, kqueue.log.compaction.compaction_task; sys.exit('numba' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
