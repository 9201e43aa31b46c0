"""S3.6, S5.3: the repair of one partition, file by file; test_repair repairs whole folders."""

from __future__ import annotations

from kqueue.log.formats.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, encode_offsets, encode_partition_metadata
from kqueue.log.formats.filenames import INDEX, LOG, PARTITION_METADATA, SNAPSHOT, TIMEINDEX, file_name
from kqueue.log_tools.repair.partition_repair import PartitionRepair, PartitionRepairResult
from kqueue.log_tools.repaired_gaps import GAPS, decode_gaps
from kqueue.log_tools.verify.data_folder import read_data_folder
from kqueue.log_tools.verify.partition import PartitionVerifier
from kqueue.log_tools.verify.report import VerificationReport
from kqueue.storage import MemoryStorage, Storage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.log.helpers import read_values
from kqueue.tests.log_tools.logs import FOLDER, append, content, flush, made, names, open_log, replace
from kqueue.tests.tables import for_each

KEY = ("t", 0)
FIRST = file_name(0, LOG)


def repair(storage: Storage, **options: bool) -> PartitionRepair:
    settings = {"deep": False, "allow_gaps": False, **options}
    return PartitionRepair(storage, FOLDER, read_data_folder(storage, VerificationReport("")), **settings)


def repaired_files(storage: Storage) -> dict[str, str]:
    """Repair; return what was done to each file."""
    return {done.file.rpartition("/")[2]: done.what for done in repair(storage).repair().done}


def errors(storage: Storage) -> list[str]:
    report = VerificationReport("")
    PartitionVerifier(storage, FOLDER, report, read_data_folder(storage, report).known(FOLDER)).run()
    return [str(finding) for finding in report.errors]


def harm(storage: MemoryStorage, name: str, position: int) -> None:
    data = bytearray(content(storage, name))
    data[position] ^= 1
    replace(storage, name, bytes(data))


def known_to_reach(storage: MemoryStorage, recovery_point: int, high_watermark: int) -> None:
    storage.write_atomic(RECOVERY_POINTS, encode_offsets({KEY: recovery_point}))
    storage.write_atomic(HIGH_WATERMARKS, encode_offsets({KEY: high_watermark}))


def test_a_valid_partition_is_unchanged() -> None:
    storage, _ = made()
    before = {entry.name: content(storage, entry.name) for entry in storage.list(FOLDER)}
    assert repair(storage).repair() == PartitionRepairResult()
    assert {entry.name: content(storage, entry.name) for entry in storage.list(FOLDER)} == before


def test_a_plan_only_reads() -> None:
    source, _ = made()
    harm(source, FIRST, 70)
    storage = FaultyStorage()
    storage.make_folder(FOLDER)
    for entry in source.list(FOLDER):
        storage.write_atomic(f"{FOLDER}/{entry.name}", content(source, entry.name))
    storage.steps.clear()
    told = repair(storage).plan()
    assert storage.steps == []
    assert [(lost.first_offset, lost.end_offset) for lost in told.lost] == [(0, 3)]
    assert told.lost == repair(storage).repair().lost


def test_damage_is_removed_files_are_rebuilt_and_gaps_recorded() -> None:
    storage, values = made()
    harm(storage, FIRST, 70)
    done = repaired_files(storage)
    assert done[file_name(0, INDEX)] == done[file_name(0, TIMEINDEX)] == "rebuilt"
    assert done[GAPS] == "offsets 0 to 2 recorded as lost"
    assert decode_gaps(content(storage, GAPS)) == [(0, 3)]
    assert errors(storage) == []
    assert repaired_files(storage) == {}, "a repair has nothing to do after a repair"
    assert read_values(open_log(storage, clean=True)) == values[3:]


def test_gaps_of_two_repairs_are_merged() -> None:
    storage, _ = made()
    harm(storage, FIRST, 70)
    repaired_files(storage)
    harm(storage, file_name(9, LOG), 70)
    assert repaired_files(storage)[GAPS] == "offsets 9 to 11 recorded as lost"
    assert decode_gaps(content(storage, GAPS)) == [(0, 3), (9, 12)]


def test_a_valid_snapshot_is_retained() -> None:
    storage = MemoryStorage()
    log = open_log(storage)
    append(log, b"a", producer_id=5, epoch=0, base_sequence=0)
    log.roll()
    append(log, b"b")
    flush(log)
    log.close()
    snapshots = {name: content(storage, name) for name in names(storage, SNAPSHOT)}
    assert snapshots
    harm(storage, FIRST, 65)
    assert repaired_files(storage).keys().isdisjoint(snapshots)
    assert {name: content(storage, name) for name in names(storage, SNAPSHOT)} == snapshots


@for_each("recovery_point, high_watermark, end", [(40, 50, 40), (50, 40, 40), (40, 36, 36), (0, 40, 36)])
def test_no_offset_is_reused(recovery_point: int, high_watermark: int, end: int) -> None:
    """The log continues where both checkpoints say; a single one may be damaged itself."""
    storage, values = made()
    known_to_reach(storage, recovery_point, high_watermark)
    assert repair(storage).is_too_short() == (end > 36)
    repaired_files(storage)
    assert not repair(storage).is_too_short()
    log = open_log(storage, recovery_point=end)
    assert append(log, b"new").base_offset == end
    assert read_values(log) == [*values, b"new"]


def test_a_lost_tail_is_reported_with_its_offsets() -> None:
    storage, _ = made()
    known_to_reach(storage, 36, 36)
    last = names(storage)[-1]
    replace(storage, last, content(storage, last)[:-1])
    assert [(lost.first_offset, lost.end_offset) for lost in repair(storage).plan().lost] == [(33, 36)]


def test_files_without_a_log_are_removed() -> None:
    storage, _ = made()
    replace(storage, file_name(700, INDEX), b"")
    assert repaired_files(storage) == {file_name(700, INDEX): "removed: it has no log file"}
    assert not storage.exists(f"{FOLDER}/{file_name(700, INDEX)}")


@for_each("has_other", [True, False])
def test_a_topic_id_comes_from_another_partition(has_other: bool) -> None:
    storage, _ = made()
    good = encode_partition_metadata(bytes(range(16)))
    replace(storage, PARTITION_METADATA, b"nonsense")
    storage.make_folder("t-1")
    storage.make_folder("u-0")
    storage.write_atomic(f"u-0/{PARTITION_METADATA}", encode_partition_metadata(bytes(16)))
    if has_other:
        storage.write_atomic(f"t-1/{PARTITION_METADATA}", good)
    done = repaired_files(storage)[PARTITION_METADATA]
    if has_other:
        assert done == "rebuilt, with the topic id that t-1 has"
        assert content(storage, PARTITION_METADATA) == good
    else:
        assert done.startswith("removed: the broker")
        assert not storage.exists(f"{FOLDER}/{PARTITION_METADATA}")
