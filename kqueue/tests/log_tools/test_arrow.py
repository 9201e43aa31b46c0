"""S3.3: records as Arrow record batches of bounded size."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pyarrow as pa
import pytest

from kqueue import open_log
from kqueue.base.errors import ExtraNeeded
from kqueue.log_tools.arrow import _TYPES, record_batches, schema
from kqueue.log_tools.folder import LogFolder
from kqueue.log_tools.rows import DECODERS, Row, Selection, rows
from kqueue.storage import MemoryStorage
from kqueue.tests.golden import VERSIONS, data_folder
from kqueue.tests.log.helpers import START_MS, append
from kqueue.tests.log.helpers import open_log as new_log
from kqueue.tests.tables import for_each


@for_each("version", VERSIONS)
def test_a_table_has_what_the_rows_have(version: str) -> None:
    for folder in [*sorted(data_folder(version).glob("v*")), data_folder(version) / "empty-0"]:
        log = open_log(folder)
        table = log.to_arrow()
        assert table.schema == schema()
        wanted = list(rows(log, Selection()))
        assert table.num_rows == len(wanted)
        columns = table.to_pydict()
        for name in (
            "topic",
            "partition",
            "offset",
            "timestamp_type",
            "key",
            "value",
            "leader_epoch",
            "producer_id",
            "sequence",
        ):
            assert columns[name] == [getattr(row, name) for row in wanted]
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [row.timestamp for row in wanted]
        assert [[(one["key"], one["value"]) for one in pairs] for pairs in columns["headers"]] == [
            list(row.headers) for row in wanted
        ]


def test_every_row_has_every_column() -> None:
    assert schema().names == list(Row._fields)
    assert _TYPES.keys() == DECODERS.keys()


def test_batches_are_bounded_by_rows_and_by_bytes() -> None:
    log = open_log(data_folder("4.3") / "v2-none-0")
    assert [batch.num_rows for batch in log.arrow_batches(rows_max=128)] == [128, 128, 44]
    by_size = [batch.num_rows for batch in log.arrow_batches(bytes_max=2000)]
    assert sum(by_size) == 300
    assert max(by_size) < 20


def test_no_more_is_taken_ahead_than_a_batch_holds() -> None:
    taken = 0

    def endless() -> Iterator[Row]:
        nonlocal taken
        while True:
            taken += 1
            yield Row("t", 0, taken, None, None, None, b"x" * 1000, (), None, None, None, None)

    batches = record_batches(endless(), Selection(), rows_max=100, bytes_max=50_000)
    assert [next(batches).num_rows for _ in range(3)] == [46, 46, 46]
    assert taken == 3 * 46


def test_selections_and_forms() -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, b'{"a":1}', b'"x"', step_ms=10)
    log.close()
    folder = LogFolder(storage, "t-0")
    table = folder.to_arrow(value_as="json", since_ms=START_MS + 1)
    assert table.schema.field("value").type == pa.string()
    assert table["value"].to_pylist() == ['"x"']
    assert folder.to_arrow(value_as="utf8", end_offset=1)["value"].to_pylist() == ['{"a":1}']
    assert folder.to_arrow(start_offset=2).num_rows == 0
    with pytest.raises(ValueError, match="no form of keys"):
        folder.to_arrow(key_as="avro")


def test_numbers() -> None:
    storage = MemoryStorage()
    log = new_log(storage)
    append(log, bytes(7) + b"\x05")
    log.close()
    column = LogFolder(storage, "t-0").to_arrow(value_as="long")["value"]
    assert (column.type, column.to_pylist()) == (pa.int64(), [5])


def test_header_names_that_are_no_text_do_not_end_it() -> None:
    row = Row("t", 0, 0, None, None, None, None, (("\udcff", b"x"), ("\udcff", None)), None, None, None, None)
    (batch,) = record_batches([row], Selection())
    assert batch["headers"].to_pylist() == [[{"key": "\ufffd", "value": b"x"}, {"key": "\ufffd", "value": None}]]


def test_without_pyarrow_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(data_folder("4.3") / "v2-none-0")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for use in (log.to_arrow, log.arrow_batches):
        with pytest.raises(ExtraNeeded, match=r"pip install '\.\[arrow\]'"):
            use()
