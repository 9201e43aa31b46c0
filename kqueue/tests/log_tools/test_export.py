"""S3.3: records to Parquet, Arrow and JSON lines; a complete file or none."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kqueue import open_log
from kqueue.base.errors import CorruptBatch
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.export import export, format_of, json_line, open_logs
from kqueue.log_tools.rows import Row, Selection
from kqueue.tests.golden import VERSIONS, data_folder, expected
from kqueue.tests.log_tools.damage import NONE, flip, some_of

THREE = "v2-three-partitions"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_data_folder_to_parquet(version: str, tmp_path: Path) -> None:
    logs = open_logs([data_folder(version)])
    assert not [log.topic for log in logs if log.topic and log.topic.startswith("__")]
    result = export(logs, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    wanted = [
        (name, one.partition, one.offset, one.value)
        for name, topic in expected(version).items()
        if ":" not in name
        for one in topic.records
    ]
    exported = zip(*(table[name].to_pylist() for name in ("topic", "partition", "offset", "value")), strict=True)
    assert sorted(exported, key=lambda row: row[:3]) == sorted(wanted, key=lambda row: row[:3])
    assert result.rows == table.num_rows
    assert [path.name for path in tmp_path.iterdir()] == ["all.parquet"]


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    logs = open_logs([data_folder("4.3") / f"{THREE}-{number}" for number in range(3)])
    export(logs, tmp_path / "x.parquet", rows_max=50)
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert file.metadata.num_rows == 153
    assert {file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)} == {50, 3}


def test_arrow_is_the_same_as_parquet(tmp_path: Path) -> None:
    logs = open_logs([data_folder("4.3")], topics=[THREE, "txn"])
    export(logs, tmp_path / "x.parquet")
    export(logs, tmp_path / "x.arrow", rows_max=100)
    with pa.ipc.open_file(tmp_path / "x.arrow") as reader:
        assert reader.num_record_batches > 3
        assert reader.read_all().to_pydict() == pq.read_table(tmp_path / "x.parquet").to_pydict()


def test_json_lines(tmp_path: Path) -> None:
    export([open_log(data_folder("4.3") / "v2-none-0")], tmp_path / "x.jsonl", selection=Selection(end_offset=30))
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    records = expected("4.3")["v2-none"].records[:30]
    assert [line["offset"] for line in lines] == [one.offset for one in records]
    assert lines[0].keys() == set(Row._fields)
    from kqueue.cli.formats import parse_json

    for line, one in zip(lines, records, strict=True):
        outgoing = parse_json(json.dumps(line).encode())
        assert (outgoing.key, outgoing.value, outgoing.timestamp_ms, outgoing.partition) == (
            one.key,
            one.value,
            one.timestamp,
            0,
        )


def row(**values: object) -> Row:
    blank = Row("t", 0, 0, None, None, None, None, (), None, None, None, None)
    return blank._replace(**values)


def test_bytes_that_are_no_text_and_numbers_that_are_none() -> None:
    line = json.loads(json_line(row(key=b"\xff", value=float("nan"), headers=(("\udcff", b"\xfe"), ("b", None)))))
    assert line["key"] == {"base64": "/w=="}
    assert line["value"] == "nan"
    assert line["headers"] == [["\ufffd", {"base64": "/g=="}], ["b", None]]


def test_export_to_standard_output_is_json_lines_only() -> None:
    output = io.BytesIO()
    result = export([open_log(data_folder("4.3") / "v2-none-0")], "-", format="jsonl", output=output)
    assert output.getvalue().count(b"\n") == result.rows == 300
    with pytest.raises(ValueError, match="only JSON lines"):
        export([], "-", format="parquet", output=output)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.jsonl"])
def test_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    folder = some_of("4.3", tmp_path, "v2-none-0")
    flip(folder / f"{NONE}.log", 10_000)
    target = tmp_path / "out" / name
    target.parent.mkdir()
    target.write_text("before")
    logs = open_logs([folder])
    with pytest.raises(FileExistsError):
        export(logs, target)
    with pytest.raises(CorruptBatch):
        export(logs, target, overwrite=True, rows_max=10)
    assert [path.name for path in target.parent.iterdir()] == [name]
    assert target.read_text() == "before"
    assert export(logs, target, overwrite=True, selection=Selection(on_damage="skip")).rows == 260
    assert target.read_bytes() != b"before"


def test_an_empty_log_gives_an_empty_table(tmp_path: Path) -> None:
    for name in ("x.parquet", "x.arrow", "x.jsonl"):
        assert export([open_log(data_folder("4.3") / "empty-0")], tmp_path / name).rows == 0
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 0


def test_progress_ends_at_all(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    export(
        [open_log(data_folder("4.3") / "v2-none-0")],
        tmp_path / "x.jsonl",
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (24560, 24560)


def test_formats_and_folders_that_are_none(tmp_path: Path) -> None:
    assert format_of("a.feather") == "arrow"
    assert format_of("a.xyz", "jsonl") == "jsonl"
    with pytest.raises(ValueError, match="does not tell the format"):
        format_of("a.xyz")
    with pytest.raises(ValueError, match="did you mean 'parquet'"):
        format_of("a", "parket")
    with pytest.raises(NotALogFolder, match="no log of topic nothing"):
        open_logs([data_folder("4.3")], topics=["nothing"])
    with pytest.raises(NotALogFolder):
        open_logs([tmp_path])
