"""S3.3: the compiled conversion to Arrow equals that by rows, with nulls and error messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log_tools import arrow
from kqueue.log_tools.columns import column_batches, is_supported
from kqueue.log_tools.decoders import DecodeError
from kqueue.log_tools.export import export, open_logs
from kqueue.log_tools.folder import LogFolder, open_log
from kqueue.log_tools.rows import Selection, rows
from kqueue.records.arrow import engine
from kqueue.records.arrow.contract import ChunkLimits
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.storage import MemoryStorage
from kqueue.tests.golden import VERSIONS, data_folder
from kqueue.tests.log.helpers import START_MS, append
from kqueue.tests.log.helpers import open_log as new_log
from kqueue.tests.log_tools.damage import NONE, flip, some_of
from kqueue.tests.records.arrow.helpers import ENGINES, NEEDS_FAST, EngineName, with_records
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

pytestmark = pytest.mark.timeout(300)  # the first run compiles
SELECTIONS = [
    {},
    {"start_offset": 7, "end_offset": 103},
    {"read_committed": True},
    {"since_ms": 1_700_000_000_000, "until_ms": 1_700_000_000_050},
    {"until_ms": 2**60},
]


def by_rows(logs: list[LogFolder], selection: Selection, limits: ChunkLimits = ChunkLimits()) -> pa.Table:  # noqa: B008
    record_batches = arrow.record_batches(
        (row for log in logs for row in rows(log, selection)),
        selection,
        rows_max=limits.rows_max,
        bytes_max=limits.bytes_max,
    )
    return pa.Table.from_batches(record_batches, arrow.schema(selection.key_as, selection.value_as))


def by_columns(
    engine: EngineName,
    logs: list[LogFolder],
    selection: Selection,
    limits: ChunkLimits = ChunkLimits(),  # noqa: B008
) -> pa.Table:
    form = arrow.schema(selection.key_as, selection.value_as)
    table = pa.Table.from_batches(column_batches(logs, selection, form, limits, lambda size: None, engine), form)
    table.validate(full=True)
    return table


def chunks(table: pa.Table) -> list[int]:
    return [len(chunk) for chunk in table["offset"].chunks]


@for_each("engine", ENGINES)
@pytest.mark.parametrize("version", corners(VERSIONS, VERSIONS[-1]))
def test_a_table_has_what_the_rows_have(engine: EngineName, version: str) -> None:
    """All topics as one table: every format and codec, transactions, with and without sequences."""
    logs = [LogFolder(log.storage, log.folder) for log in open_logs([data_folder(version)])]
    for chosen in SELECTIONS:
        selection = Selection(**chosen)
        assert by_columns(engine, logs, selection).equals(by_rows(logs, selection))
    selection, limits = Selection(), ChunkLimits(50)
    new = [log for log in logs if log.topic and log.topic.startswith("v2")]  # a piece has rows of old or of new formats
    assert chunks(by_columns(engine, new, selection, limits)) == chunks(by_rows(new, selection, limits))


@for_each("engine", ENGINES)
def test_texts(engine: EngineName) -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, "caf\u00e9".encode(), b"", None, b"plain")
    log.close()
    folder = LogFolder(storage, "t-0")
    selection = Selection(value_as="utf8")
    table = by_columns(engine, [folder], selection)
    assert table["value"].to_pylist() == ["caf\u00e9", "", None, "plain"]
    assert table.equals(by_rows([folder], selection))


@for_each("engine", ENGINES)
def test_invalid_text_is_reported_as_by_rows(engine: EngineName) -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b"good", b"good")
    append(log, b"good", b"b\xffd", b"\xfe")
    log.close()
    folder, said = LogFolder(storage, "t-0"), []
    for way in (by_rows, lambda *given: by_columns(engine, *given)):
        with pytest.raises(DecodeError, match="offset 3") as caught:
            way([folder], Selection(value_as="utf8"))
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_damage_is_told_as_by_rows(engine: EngineName, tmp_path: Path) -> None:
    """A wrong checksum, and wrong records with a right one: raised, reported or skipped."""
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 10_000)
    path = folder / "v2-none-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    records = bytearray(data[BATCH_OVERHEAD:size])
    records[-1] = 7
    data[:size] = with_records(bytes(data[:size]), bytes(records))
    path.write_bytes(data)
    log = open_log(folder / "v2-none-0")
    outcomes: list[Any] = []
    for way in (by_rows, lambda *given: by_columns(engine, *given)):
        with pytest.raises(CorruptBatch, match="position 0") as caught:
            way([log], Selection())
        told: list[Any] = []
        outcomes.append((str(caught.value), way([log], Selection(on_damage=told.append)).to_pydict(), told))
        assert way([log], Selection(on_damage="skip")).num_rows == len(outcomes[-1][1]["offset"])
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][2]) == 2


@NEEDS_FAST
def test_columns_are_used_for_supported_forms_and_enough_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not for forms that are decoded row by row, nor for little data while numba is not loaded."""
    assert is_supported(Selection(key_as="utf8"))
    assert not is_supported(Selection(key_as="json"))
    used: list[int] = []
    monkeypatch.setattr(arrow, "column_batches", lambda *given: used.append(1) or column_batches(*given))
    log = open_log(data_folder("4.3") / "v2-none-0")
    monkeypatch.setattr(engine, "FAST_BYTES_MIN", 0)
    assert log.to_arrow().num_rows == 300
    export([log], tmp_path / "x.parquet")
    assert used == [1, 1]
    monkeypatch.setattr(engine, "FAST_BYTES_MIN", 10**6)
    monkeypatch.delitem(sys.modules, engine.FAST)
    assert log.to_arrow().num_rows == 300
    export([log], tmp_path / "y.parquet")
    assert used == [1, 1]
    monkeypatch.setattr(engine, "FAST", "kqueue.nothing")
    monkeypatch.setattr(engine, "FAST_BYTES_MIN", 0)
    assert log.to_arrow().num_rows == 300  # where it is not installed
    assert used == [1, 1]


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b"x", step_ms=10)
    log.close()
    assert by_columns("python", [LogFolder(storage, "t-0")], Selection())["timestamp"].cast(pa.int64()).to_pylist() == [
        START_MS
    ]
