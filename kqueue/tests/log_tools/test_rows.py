"""S3.3, S4.2: records as rows, and their selection."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue import open_log
from kqueue.base.errors import CorruptBatch
from kqueue.log.recovery.damage import Damage
from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.rows import DECODERS, Row, Selection, decoder, rows
from kqueue.storage import MemoryStorage
from kqueue.tests.golden import VERSIONS, ExpectedRecord, data_folder, expected
from kqueue.tests.log.helpers import START_MS, append, end_transaction
from kqueue.tests.log.helpers import open_log as new_log
from kqueue.tests.log_tools.damage import NONE, flip, some_of
from kqueue.tests.tables import for_each

TYPES = {"CreateTime": 1, "LogAppendTime": 2, None: 0}


def as_expected(row: Row) -> ExpectedRecord:
    assert row.partition is not None
    timestamp = 0 if row.timestamp is None else row.timestamp
    return ExpectedRecord(
        row.partition, row.offset, TYPES[row.timestamp_type], timestamp, row.key, row.value, row.headers
    )


@for_each("version", VERSIONS)
def test_all_that_kafka_wrote_is_there(version: str) -> None:
    for name, topic in expected(version).items():
        for partition in topic.watermarks:
            folder = data_folder(version) / f"{name.partition(':')[0]}-{partition}"
            selection = Selection(read_committed=name.endswith(":committed"))
            assert [as_expected(row) for row in rows(open_log(folder), selection)] == topic.of_partition(partition), (
                name
            )


def none(**selection: object) -> list[int]:
    log = open_log(data_folder("4.3") / "v2-none-0")
    return [row.offset for row in rows(log, Selection(**selection))]  # type: ignore[arg-type]


def test_bounds() -> None:
    records = expected("4.3")["v2-none"].records
    assert none(start_offset=45, end_offset=83) == list(range(45, 83))
    assert none(start_offset=300) == none(end_offset=0) == []
    since, until = records[100].timestamp, records[200].timestamp
    assert none(since_ms=since, until_ms=until) == [one.offset for one in records if since <= one.timestamp < until]
    assert none(since_ms=max(one.timestamp for one in records) + 1) == none(until_ms=0) == []
    old = open_log(data_folder("2.8") / "v0-none-0")
    assert not list(rows(old, Selection(until_ms=2**62))), "these have no times"


def test_a_start_below_the_log_start_means_the_log_start(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nv2-none 0 120\n")
    offsets = [row.offset for row in rows(open_log(folder / "v2-none-0"), Selection(start_offset=7))]
    assert offsets == list(range(120, 300))


def test_producers_and_epochs() -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b"a", leader_epoch=3)
    append(log, b"b", b"c", leader_epoch=4, producer_id=7, epoch=1, base_sequence=0, transactional=True)
    end_transaction(log, 1, 7, leader_epoch=4, epoch=1)
    log.close()
    all_rows = list(rows(LogFolder(storage, "t-0"), Selection()))
    assert [(row.offset, row.leader_epoch, row.producer_id, row.producer_epoch, row.sequence) for row in all_rows] == [
        (0, 3, None, None, None),
        (1, 4, 7, 1, 0),
        (2, 4, 7, 1, 1),
    ]
    assert all_rows[0][:7] == ("t", 0, 0, START_MS, "CreateTime", None, b"a")


def test_open_transactions_end_what_is_committed() -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b"a")
    append(log, b"b", producer_id=7, epoch=0, base_sequence=0, transactional=True)
    append(log, b"c")
    log.close()
    folder = LogFolder(storage, "t-0")
    assert [row.value for row in rows(folder, Selection(read_committed=True))] == [b"a"]
    assert [row.value for row in rows(folder, Selection())] == [b"a", b"b", b"c"]


def test_damage_is_raised_passed_over_or_told(tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 3300)
    log = open_log(folder / "v2-none-0")
    with pytest.raises(CorruptBatch, match="position 3180"):
        list(rows(log, Selection()))
    rest = [*range(40), *range(80, 300)]
    assert [row.offset for row in rows(log, Selection(on_damage="skip"))] == rest
    told: list[Damage] = []
    assert [row.offset for row in rows(log, Selection(on_damage=told.append))] == rest
    assert [damage.position for damage in told] == [3180]


def decoded(name: str, value: bytes) -> object:
    return decoder(name)(value)


def test_decoders() -> None:
    assert decoded("binary", b"\xff") == b"\xff"
    assert decoded("utf8", "ü".encode()) == "ü"
    assert decoded("json", b'{"a": [1, null]}') == {"a": [1, None]}
    assert decoded("short", b"\xff\xfe") == -2
    assert decoded("integer", bytes(3) + b"\x07") == 7
    assert decoded("long", bytes(7) + b"\x07") == 7
    assert decoded("float", b"\x3f\x80\0\0") == 1.0
    assert decoded("double", b"\x3f\xf0" + bytes(6)) == 1.0
    with pytest.raises(ValueError, match="did you mean 'utf8'"):
        Selection(value_as="utf-8")


@for_each("name", sorted(DECODERS.keys() - {"binary"}))
def test_value_of_another_form_is_refused(name: str) -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b"fine", b"\xff\xfe\xfd" + b"[" * 2)
    log.close()
    with pytest.raises(DecodeError, match="t-0, offset [01]: a key or value is not what"):
        list(rows(LogFolder(storage, "t-0"), Selection(value_as=name)))


def test_json_that_is_too_deep_is_an_error_like_others() -> None:
    with pytest.raises(DecodeError, match="too deeply"):
        decoded("json", b"[" * 100_000)


def test_progress_counts_bytes() -> None:
    log = open_log(data_folder("4.3") / "v2-none-0")
    seen: list[int] = []
    assert len(list(rows(log, Selection(), seen.append))) == 300
    assert sum(seen) == 24560
