"""Folders of tables: who works on them, and what may change from one run to the next."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.spark.event_schema import FLIGHTS, EventSchema, Field
from kqueue.spark.stores import Location, open_store
from kqueue.spark.tables.folder import Format, Tables, open_tables
from kqueue.tests.spark.stores.s3_server import s3_place, s3_server

SOURCE = {"kafka.bootstrap.servers": "here:9092", "subscribe": "a,b"}


def opened(
    folder: Path, schema: EventSchema = FLIGHTS, format: Format = "parquet", source: dict[str, str] = SOURCE
) -> Tables:
    """Opened and closed again."""
    with open_tables(Location(str(folder)), schema, format, source) as tables:
        return tables


def test_a_second_run_finds_the_same_tables(tmp_path: Path) -> None:
    first = opened(tmp_path / "new" / "tables")
    with open_tables(Location(str(tmp_path / "new" / "tables")), FLIGHTS, "parquet", SOURCE) as second:
        assert second == dataclasses.replace(first, storage=second.storage, store=second.store, closing=second.closing)
        assert second.read_json("gold.json") is None
        second.keep_json("gold.json", {"batch": 3})
        assert second.read_json("gold.json") == {"batch": 3}
        assert second.store.url == first.store.url


def test_staging_folders_of_the_first_release_are_removed(tmp_path: Path) -> None:
    tables = opened(tmp_path)
    left = tables.checkpoints / "staging" / "bronze-3-x"
    left.mkdir(parents=True)
    opened(tmp_path)
    assert not left.exists()


def test_folder_in_use_is_refused_until_it_is_closed(tmp_path: Path) -> None:
    with (
        open_tables(Location(str(tmp_path)), FLIGHTS, "parquet", SOURCE),
        pytest.raises(FolderInUse, match="another ingest is at work on .*: wait"),
    ):
        opened(tmp_path)
    opened(tmp_path)


def changed(**fields: Any) -> EventSchema:
    return dataclasses.replace(FLIGHTS, **fields)


MORE = (*FLIGHTS.fields, Field("gate", "string", True))
OTHER: dict[str, tuple[EventSchema, Format, dict[str, str]]] = {
    "made with format parquet, and this is delta": (FLIGHTS, "delta", SOURCE),
    "made with lateness 2 hours, and this is 3 hours": (changed(lateness="3 hours"), "parquet", SOURCE),
    "made with window 1 hour, and this is 1 day": (changed(window="1 day"), "parquet", SOURCE),
    "made with by origin, and this is none": (changed(by=()), "parquet", SOURCE),
    "made with time departed, scheduled, and this is scheduled": (changed(time=("scheduled",)), "parquet", SOURCE),
    "made with id id, and this is flight": (changed(id="flight"), "parquet", SOURCE),
    r"made with gold flights = count\(\*\), .*, and this is n = count\(\*\)": (
        changed(gold={"n": "count(*)"}),
        "parquet",
        SOURCE,
    ),
    "made with a field 'delay_min' of type int\\?, and it is gone": (
        changed(fields=FLIGHTS.fields[:-1]),
        "parquet",
        SOURCE,
    ),
    "made with a field 'delay_min' of type int\\?, and it is double now": (
        changed(fields=(*FLIGHTS.fields[:-1], Field("delay_min", "double"))),
        "parquet",
        SOURCE,
    ),
    "have no field 'gate', and older events won't have it: let it be null \\(string\\?\\)": (
        changed(fields=(*FLIGHTS.fields, Field("gate", "string"))),
        "parquet",
        SOURCE,
    ),
    "made of topics a,b, and this is topics a": (FLIGHTS, "parquet", {"subscribe": "a"}),
    "made of topics a,b, and this is subscribePattern a": (FLIGHTS, "parquet", {"subscribePattern": "a"}),
}


@pytest.mark.parametrize("words", OTHER)
def test_settings_of_other_tables_are_refused_in_one_sentence(tmp_path: Path, words: str) -> None:
    pytest.importorskip("deltalake")
    opened(tmp_path)
    before = (tmp_path / "checkpoints" / "tables.json").read_bytes()
    with pytest.raises(OptionError, match=f"^the tables in .* {words}.*(another folder|name those too)"):
        opened(tmp_path, *OTHER[words])
    assert (tmp_path / "checkpoints" / "tables.json").read_bytes() == before


def test_nullable_fields_rules_and_topics_can_be_added(tmp_path: Path) -> None:
    first = opened(tmp_path)
    later = changed(fields=MORE, rules={})
    again = opened(tmp_path, later, source={"subscribe": "b,c,a"})
    assert again.writer == first.writer
    with pytest.raises(OptionError, match="a field 'gate' of type string\\?, and it is gone"):  # it is kept
        opened(tmp_path)
    opened(tmp_path, later, source={"subscribe": "a,b,c"})


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(OptionError, match="has something in it that no ingest has made"):
        opened(tmp_path)
    assert not (tmp_path / "checkpoints" / "tables.json").exists()
    elsewhere = {"hdfs": "is in no file system that is mounted here", "s3": "need a mounted folder for the progress"}
    for scheme, words in elsewhere.items():
        tables = open_tables(Location(f"{scheme}://bucket/tables"), FLIGHTS, "parquet", SOURCE)
        with pytest.raises(OptionError, match=words), tables:
            pass
    with pytest.raises(StorageFailed):
        opened(tmp_path / "mine.txt" / "tables")
    with pytest.raises(OptionError, match="expected parquet, delta or iceberg, found 'orc'"):
        opened(tmp_path / "new", format="orc")  # type: ignore[arg-type]


def test_damaged_and_newer_table_files_are_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    file = tmp_path / "checkpoints" / "tables.json"
    text = file.read_text()
    file.write_text(text[:-5])
    with pytest.raises(PipelineFailed, match=r"tables\.json is damaged"):
        opened(tmp_path)
    file.write_text(json.dumps({**json.loads(text), "version": 2}))
    with pytest.raises(OptionError, match="was made by another version of kqueue"):
        opened(tmp_path)


def test_a_java_that_ended_is_no_fault_of_the_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(ConnectionRefusedError),
        open_tables(Location(str(tmp_path)), FLIGHTS, "parquet", SOURCE),
    ):
        raise ConnectionRefusedError(111, "Connection refused")
    with (
        pytest.raises(StorageFailed, match="can't be written to"),
        open_tables(Location(str(tmp_path)), FLIGHTS, "parquet", SOURCE),
    ):
        raise OSError(28, "No space left on device")


def test_tables_in_an_object_store_belong_to_one_folder_of_progress(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with s3_server() as server:

        def opened_from(name: str, prefix: str = "tables") -> Tables:
            place = s3_place(server, prefix, checkpoint=str(tmp_path / name))
            with open_tables(place, FLIGHTS, "parquet", SOURCE) as tables:
                return tables

        first = opened_from("one")
        assert first.writer == opened_from("one").writer
        assert first.store.names("") == ["checkpoints/owner"]
        with pytest.raises(OptionError, match="has tables, whose progress is in another folder than .*two: name that"):
            opened_from("two")
        opened_from("two", "others")
        with pytest.raises(OptionError, match="belong to another ingest than that of .*two"):
            opened_from("two")
        open_store(s3_place(server, "mine"), None).put_new("x", b"")
        with pytest.raises(OptionError, match="has something in it that no ingest has made"):
            opened_from("three", "mine")
