from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kqueue_cleanup_archive import Archive, ArchiveFailed
from kqueue_cleanup_archive.archive import NO_DAY, day_of
from kqueue_cleanup_archive.days import OPEN_MAX
from logs import (
    DAY_MS,
    START_MS,
    Broken,
    archived,
    broken,
    files,
    fill,
    offsets,
    partition_of,
    put,
    sealed,
    simulation,
    whole_files,
)
from pyarrow.fs import FileSystem

import kqueue
from kqueue.base.errors import CorruptBatch
from kqueue.records.batch import ABORT, COMMIT, Record, control_key_value
from kqueue.storage import MemoryStorage
from kqueue.testing.simulation import Simulation


def test_all_columns_are_those_of_the_export(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 40)
    segments = sealed(partition)
    Archive(str(tmp_path / "archive"))(segments)
    sim.stop()
    exported = kqueue.open_log(tmp_path / "data" / "orders-0").to_arrow(end_offset=segments.end_offset)
    table = archived(tmp_path / "archive").select(exported.column_names)
    assert table.num_rows == segments.end_offset > 20
    assert table.cast(exported.schema).equals(exported)


def test_archive_lacks_aborted_and_control_records(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    for producer, kind in ((1, ABORT), (2, COMMIT)):
        facts = {"producer_id": producer, "epoch": 0, "transactional": True}
        put(sim, partition, [Record(0, START_MS, b"k", b"of %d" % producer)], base_sequence=0, **facts)
        put(sim, partition, [Record(0, START_MS, *control_key_value(kind, 0))], control=True, **facts)
    partition.log.roll()
    Archive(str(tmp_path / "archive"))(sealed(partition))
    assert archived(tmp_path / "archive")["value"].to_pylist() == [b"of 2"]


def test_a_day_is_that_of_the_record_and_what_has_none_is_null(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    times = [
        START_MS,
        START_MS + DAY_MS - 1,
        START_MS + DAY_MS,
        -1,
        253_402_300_800_000,
        2**62,
    ]  # the last ones lie beyond 9999
    fill(sim, partition, 36, times)
    partition.log.roll()
    Archive(str(tmp_path / "archive"))(sealed(partition))
    table = archived(tmp_path / "archive")
    days = [date(2023, 12, 9), date(2023, 12, 9), date(2023, 12, 10), None, None, None]
    assert table["date"].to_pylist() == days * 6
    assert table["offset"].to_pylist() == list(range(36))
    assert {path.parent.name for path in files(tmp_path)} >= {"date=2023-12-09", "date=2023-12-10", f"date={NO_DAY}"}
    in_ms = table["timestamp"].cast(pa.int64()).to_pylist()
    assert in_ms[:6] == [*times[:3], None, *times[4:]]


def test_days_by_their_number() -> None:
    assert (day_of(0), day_of(19_700), day_of(2_932_896)) == ("1970-01-01", "2023-12-09", "9999-12-31")
    assert (day_of(-1), day_of(2_932_897), day_of(2**50)) == (NO_DAY, NO_DAY, NO_DAY)


def test_the_name_of_a_file_tells_partition_offsets_and_topic_id(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 40)
    segments = sealed(partition, 2)
    Archive(f"file://{tmp_path}/archive/")(segments)
    [file] = files(tmp_path / "archive")
    assert segments.topic_id is not None
    name = f"0-{0:020}-{segments.end_offset - 1:020}-{segments.topic_id.hex()}.parquet"
    assert file == tmp_path / "archive" / "topic=orders" / "date=2023-12-09" / name


def test_a_relative_path_and_one_of_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for uri, place in (("here", tmp_path / "here"), ("~/there", tmp_path / "home" / "there")):
        Archive(uri)(sealed(partition))
        assert offsets(place) == list(range(sealed(partition).end_offset))


def test_a_log_in_memory_to_an_archive_in_memory() -> None:
    sim = Simulation({"kqueue.storage": "memory"}, storage=MemoryStorage())
    partition = partition_of(sim)
    fill(sim, partition, 40)
    filesystem, _ = FileSystem.from_uri("mock:///archive")
    for _ in range(2):
        Archive("archive", filesystem)(sealed(partition))
    assert offsets("archive", filesystem) == list(range(sealed(partition).end_offset))


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim, segment_bytes="100000000")
    for _ in range(30):
        put(sim, partition, [Record(0, START_MS, None, os.urandom(900_000))])
    partition.log.roll()
    Archive(str(tmp_path / "archive"))(sealed(partition))
    [file] = whole_files(tmp_path / "archive")
    metadata = pq.read_metadata(file)
    assert metadata.num_rows == 30
    assert metadata.num_row_groups >= 3


def test_many_days_at_once_need_few_open_files_and_are_whole(tmp_path: Path) -> None:
    """A producer may send any times it likes."""
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    days = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 0, 10, 20)
    fill(sim, partition, 200, [START_MS + day * DAY_MS for day in days])
    handler = Broken()
    Archive(str(tmp_path / "archive"), broken(handler))(sealed(partition))
    assert offsets(tmp_path / "archive") == list(range(sealed(partition).end_offset))
    assert len({path.parent for path in whole_files(tmp_path)}) == 12
    assert handler.open_streams_max == OPEN_MAX
    assert handler.open_streams == 0


# --- again


def test_done_again_nothing_is_written_again(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 40, [START_MS, START_MS + DAY_MS])
    archive = Archive(str(tmp_path / "archive"))
    archive(sealed(partition))
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files(tmp_path / "archive")}
    archive(sealed(partition))
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files(tmp_path / "archive")} == before
    assert len(before) == 2


@given(
    parts=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10)), min_size=1, max_size=4),
    days=st.lists(st.integers(0, 12), min_size=1, max_size=12),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_parts_in_any_order_give_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[int, int]], days: list[int]
) -> None:
    """Segments may begin and end elsewhere after a crash, and what is handed over may overlap what
    was before.
    """
    folder = tmp_path_factory.mktemp("parts")
    sim = Simulation({"kqueue.storage": "memory"}, storage=MemoryStorage())
    partition = partition_of(sim)
    fill(sim, partition, 50, [START_MS + day * DAY_MS for day in days])
    expected: set[int] = set()
    for skip, count in parts:
        segments = sealed(partition, count, min(skip, len(partition.log.segments) - 2))
        Archive(str(folder / "archive"))(segments)
        expected |= set(range(segments.start_offset, segments.end_offset))
    assert offsets(folder / "archive") == sorted(expected)


def test_a_log_compacted_meanwhile_adds_nothing_and_loses_nothing(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data", log_cleaner_backoff_ms=1000)
    partition = partition_of(sim, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    fill(sim, partition, 60)
    Archive(str(tmp_path / "archive"))(sealed(partition, 4))
    first = offsets(tmp_path / "archive")
    sim.advance(60_000)
    segments = sealed(partition)
    assert len(list(segments.records())) < 20
    Archive(str(tmp_path / "archive"))(segments)
    assert offsets(tmp_path / "archive") == sorted({*first, *(record.offset for record in segments.records())})


def test_a_topic_made_again_is_another(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    for word in (b"old", b"new"):
        partition = partition_of(sim)
        for _ in range(10):
            put(sim, partition, [Record(0, START_MS, None, word + b"." * 300)])
        Archive(str(tmp_path / "archive"))(sealed(partition, 2))
        sim.broker.topics.delete("orders")
        sim.settle()
    values = [value[:3] for value in archived(tmp_path / "archive")["value"].to_pylist()]
    assert sorted(values) == [b"new"] * (len(values) // 2) + [b"old"] * (len(values) // 2)


def test_other_partitions_and_topics_are_left_alone(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    topic = sim.topic("orders", 2, segment_bytes="1000", cleanup_policy="archive")
    theirs = (
        tmp_path
        / "archive"
        / "topic=orders"
        / "date=2023-12-09"
        / f"_1-{1:020}-{1:020}-{topic.id.hex()}.parquet.partial"
    )
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"is being written")
    for partition in topic.partitions:
        fill(sim, partition, 20)
    Archive(str(tmp_path / "archive"))(sealed(topic.partition(0)))
    assert theirs.exists()
    Archive(str(tmp_path / "archive"))(sealed(topic.partition(1)))
    assert not theirs.exists(), "left by a process that was killed"
    end = sealed(topic.partition(0)).end_offset
    assert offsets(tmp_path / "archive") == [*range(end), *range(end)]


# --- what fails


def test_a_store_that_fails_at_any_operation_has_whole_files_or_none_and_the_next_time_all(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 30, [START_MS, START_MS + DAY_MS])
    segments = sealed(partition)
    counter = Broken()
    Archive(str(tmp_path / "whole"), broken(counter))(segments)
    assert counter.counted > 20
    for at in range(1, counter.counted + 1):
        for for_good in (
            (False, True) if at % 3 else (True,)
        ):  # the latter is what a killed process leaves: nobody tidies up
            root = tmp_path / f"{at}-{for_good}"
            with pytest.raises(OSError, match="No space left"):
                Archive(str(root), broken(Broken(at, for_good=for_good)))(segments)
            seen = offsets(root)
            assert len(seen) == len(set(seen))
            if not for_good:
                assert [path for path in files(root) if path.name.startswith("_")] == []
            Archive(str(root), broken(Broken()))(segments)
            assert offsets(root) == list(range(segments.end_offset)), f"failed at operation {at}"
            assert [path for path in files(root) if path.name.startswith("_")] == []


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_a_killed_process_leaves_what_the_next_one_can_go_on_from(tmp_path: Path, share: float) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 30, [START_MS, START_MS + DAY_MS])
    segments = sealed(partition)
    counter = Broken()
    Archive(str(tmp_path / "whole"), broken(counter))(segments)
    (tmp_path / "task").write_bytes(pickle.dumps(segments))
    script = (
        "import pickle, sys; from pathlib import Path; from logs import Broken, broken; from "
        "kqueue_cleanup_archive import Archive;"
        "Archive(sys.argv[2], broken(Broken(int(sys.argv[3]), "
        "kill=True)))(pickle.loads(Path(sys.argv[1]).read_bytes()))"
    )
    root = tmp_path / "archive"
    arguments = [str(tmp_path / "task"), str(root), str(int(counter.counted * share))]
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=Path(__file__).parent, timeout=60, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    Archive(str(root))(segments)
    assert offsets(root) == list(range(segments.end_offset))


def test_bytes_that_change_on_the_way_are_noticed_before_a_file_has_its_name(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 30)
    handler = Broken()
    handler.change = lambda data: data if len(data) < 300 else data[:200] + bytes([data[200] ^ 1]) + data[201:]
    with pytest.raises((OSError, ArchiveFailed)):
        Archive(str(tmp_path / "archive"), broken(handler))(sealed(partition))
    assert files(tmp_path / "archive") == []


def rewritten(file: Path, table: pa.Table) -> None:
    pq.write_table(table, file)


@pytest.mark.parametrize("what", ["value", "missing row", "no Parquet"])
def test_a_file_that_does_not_say_what_the_log_says_is_named_and_kept(tmp_path: Path, what: str) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 30)
    Archive(str(tmp_path / "archive"))(sealed(partition))
    [file] = files(tmp_path / "archive")
    table = pq.ParquetFile(file).read()
    if what == "value":
        values = table["value"].to_pylist()
        values[5] = b"another"
        rewritten(
            file,
            table.set_column(
                table.schema.get_field_index("value"), table.schema.field("value"), pa.array(values, pa.binary())
            ),
        )
    elif what == "missing row":
        rewritten(file, pa.concat_tables([table.slice(0, 5), table.slice(6)]))
    else:
        file.write_bytes(b"what")
    before = file.read_bytes()
    with pytest.raises((ArchiveFailed, ValueError)) as caught:
        Archive(str(tmp_path / "archive"))(sealed(partition))
    if what != "no Parquet":
        assert str(file) in str(caught.value)
    assert file.read_bytes() == before


def test_damage_in_the_log_is_never_archived(tmp_path: Path) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 30)
    log = tmp_path / "data" / "orders-0" / f"{partition.log.segments[1].base:020}.log"
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptBatch, match=log.name):
        Archive(str(tmp_path / "archive"))(sealed(partition))
    assert files(tmp_path / "archive") == []


@pytest.mark.parametrize("uri", ["nowhere://user:secret@bucket/archive", "s3://user:secret@bucket/archive?what=secret"])
def test_a_uri_that_can_not_be_used_is_told_without_its_password(tmp_path: Path, uri: str) -> None:
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 20)
    with pytest.raises(ArchiveFailed, match=uri.partition(":")[0]) as caught:
        Archive(uri)(sealed(partition))
    assert "user" not in str(caught.value)


def test_pickled_archive_shows_no_password() -> None:
    archive = Archive("s3://user:secret@bucket/archive")
    assert "secret" not in repr(archive)
    assert pickle.loads(pickle.dumps(archive)) == archive
