"""The folder of a job's tables: their description, the lock, and staged batches.

checkpoints/tables.json   what the tables were created with
checkpoints/lock          held by the running job
checkpoints/stream/       Spark's checkpoint
checkpoints/catalog.db    Iceberg's catalog, unless it is elsewhere
checkpoints/gold.json     the end of the last window in gold
checkpoints/silver/       decisions and manifests of a table's batches (`kqueue.spark.batches`)
"""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from kqueue.base.errors import FolderInUse, StorageFailed
from kqueue.spark.batches.readers import CHECKPOINTS
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.spark.event_schema import EventSchema
from kqueue.spark.stores import Location, Store, open_store
from kqueue.spark.stores.s3 import SCHEME
from kqueue.spark.tables import delta, iceberg
from kqueue.spark.tables.delta import DeltaLog
from kqueue.spark.tables.iceberg import IcebergLog
from kqueue.spark.tables.table import DATE, Log, Table
from kqueue.storage.local import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Format = Literal["parquet", "delta", "iceberg"]
FORMATS: tuple[Format, ...] = get_args(Format)
VERSION = 1
TOPICS = ("subscribe", "subscribePattern", "assign")
NEEDED = {"delta": delta.check_installed, "iceberg": iceberg.check_installed}
OWNER = f"{CHECKPOINTS}/owner"
_FILE = "tables.json"


@dataclass(frozen=True)
class Tables:
    """Locked tables. `store`: of the tables. `checkpoints`: the folder of their progress.

    `storage`: that folder as storage. `catalog`: Iceberg's. `closing`: what the end of the run
    closes. `writer`: the tables' id.
    """

    store: Store
    checkpoints: Path
    storage: LocalStorage
    format: Format
    catalog: Path
    closing: contextlib.ExitStack
    writer: str

    def table(self, name: str, columns: DataFrame) -> Table:
        """Return a table.

        Args:
            columns: an empty frame with the table's columns.
        """
        log = self._log(name, columns)
        if log is not None:
            self.closing.callback(log.close)
        return Table(self.store, name, columns, log)

    def _log(self, name: str, columns: DataFrame) -> Log | None:
        if self.format == "delta":
            by = [DATE] if DATE in columns.columns else []
            return DeltaLog(self.store, name, columns.schema.json(), by, self.writer)
        if self.format == "iceberg":
            from pyspark.sql.pandas.types import to_arrow_schema

            schema = to_arrow_schema(columns.schema, timezone="UTC")
            return IcebergLog(self.store, name, schema, self.catalog, self.writer)
        return None

    def read_json(self, name: str) -> Any:
        """Return the stored value of a name; None: none."""
        return read_json(self.checkpoints, name)

    def keep_json(self, name: str, value: object) -> None:
        """Store a value atomically: after a crash it is the old or the new one."""
        self.storage.write_atomic(name, json.dumps(value, indent=1).encode())


def read_json(folder: Path, name: str) -> Any:
    """Return the value of a file; None: it is not there. Raises: PipelineFailed: it is damaged."""
    try:
        return json.loads((folder / name).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PipelineFailed(f"{folder / name} is damaged: {error}") from None


def has_tables(place: Location) -> bool:
    """Return whether an earlier run has made tables there."""
    return (_checkpoints(place) / _FILE).exists()


def check_tables(place: Location, schema: EventSchema, format: Format, source: Mapping[str, str]) -> None:
    """Raise what is wrong before there is a lock, or Spark: as `open_tables`. Makes nothing."""
    if format not in FORMATS:
        raise OptionError(f"format: expected {_choice(FORMATS)}, found {format!r}")
    if format in NEEDED:
        NEEDED[format]()
    try:
        there = read_json(_checkpoints(place), _FILE)
    except OSError as error:
        raise StorageFailed(f"{place.url} can't be read: {error}") from None
    if there is not None:
        _check_made(there, _description(schema, format, source), place.url)


def _checkpoints(place: Location) -> Path:
    """Return the folder of the progress. Raises OptionError: it would be on no mounted one."""
    if place.checkpoint is not None and ("://" not in place.url or place.url.startswith(SCHEME)):
        return Path(place.checkpoint).absolute()
    if "://" in place.url:
        if place.url.startswith(SCHEME):
            raise OptionError(
                f"tables on {place.url} need a mounted folder for the progress of ingest: name one (checkpoint, "
                "--checkpoint), always the same"
            )
        raise OptionError(
            f"{place.url!r} is in no file system that is mounted here: name a folder, on a cluster one that all "
            f"machines share, or a prefix of an object store ({SCHEME}BUCKET/PREFIX)"
        )
    return Path(place.url).absolute() / CHECKPOINTS


@contextlib.contextmanager
def open_tables(
    place: Location, schema: EventSchema, format: Format, source: Mapping[str, str], spark: SparkSession | None = None
) -> Iterator[Tables]:
    """Lock tables during the block; create their folder if it does not exist.

    Raises: OptionError: not on a mounted file system, or the tables were created with other
        settings (the message names them). FolderInUse: another job holds it. ExtraNeeded: a package
        is missing. StorageFailed: it cannot be created or written.
    """
    check_tables(place, schema, format, source)
    checkpoints, folder = _checkpoints(place), place.url
    if "://" not in folder:
        place = replace(place, url=str(Path(folder).absolute()))
    storage = LocalStorage(checkpoints, private=False)
    try:
        lock = storage.lock("lock")
    except FolderInUse:
        raise FolderInUse(
            f"another ingest is at work on {folder}: wait until it is done, or take another folder"
        ) from None
    catalog = checkpoints / "catalog.db" if place.catalog is None else Path(place.catalog).absolute()
    try:
        with contextlib.ExitStack() as closing:
            opened = Tables(open_store(place, spark), checkpoints, storage, format, catalog, closing, "")
            tables = replace(opened, writer=_agreed(opened, _description(schema, format, source), folder))
            shutil.rmtree(checkpoints / "staging", ignore_errors=True)  # where the first releases wrote
            yield tables
    except ConnectionError:  # of the bridge to Spark's Java
        raise
    except OSError as error:
        raise StorageFailed(f"{folder} can't be written to: {error}") from None
    finally:
        lock.release()


def _choice(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _description(schema: EventSchema, format: Format, source: Mapping[str, str]) -> dict[str, Any]:
    topics = {name: source[name] for name in TOPICS if name in source}
    return {"version": VERSION, "format": format, "topics": topics, "shape": json.loads(json.dumps(asdict(schema)))}


def _agreed(tables: Tables, given: dict[str, Any], folder: str) -> str:
    """Return the id of the tables, after comparing the settings with those of their creation."""
    there = tables.read_json(_FILE)
    if there is None:
        if tables.store.exists(OWNER):
            raise OptionError(
                f"{folder} has tables, whose progress is in another folder than {tables.checkpoints}: name that one "
                "(checkpoint, --checkpoint); if it is lost, take another place for the tables"
            )
        others = [name for name in tables.store.names("") if name.partition("/")[0] != CHECKPOINTS]
        if others or (tables.checkpoints / "stream").exists():
            raise OptionError(
                f"{folder} has something in it that no ingest has made: take an empty folder, or one that is "
                "not there yet"
            )
        there = {**given, "writer": f"kqueue-{uuid.uuid4()}"}
        tables.keep_json(_FILE, there)
    else:
        _check_made(there, given, folder)
        if {**there, **given} != there:
            tables.keep_json(_FILE, {**there, **given})
    _own(tables, str(there["writer"]), folder)
    return str(there["writer"])


def _own(tables: Tables, writer: str, folder: str) -> None:
    """Tie tables in an object store to the folder of their progress.

    With another one, Spark's batches would begin at 0 again, and be taken for those that are there.
    """
    if tables.store.renames:
        return
    if not tables.store.put_new(OWNER, writer.encode()) and tables.store.read(OWNER) != writer.encode():
        raise OptionError(
            f"the tables on {folder} belong to another ingest than that of {tables.checkpoints}: take another folder "
            "for one of them"
        )


def _check_made(there: Any, given: Mapping[str, Any], folder: str) -> None:
    """Raise OptionError if the tables were made by another version, or with other settings."""
    if not isinstance(there, dict) or there.get("version") != VERSION:
        raise OptionError(f"{folder} was made by another version of kqueue: use that, or another folder")
    _compare(there, given, folder)


def _compare(there: Mapping[str, Any], given: Mapping[str, Any], folder: str) -> None:
    """Raise OptionError if tables would mix incompatible rows.

    Changed rules are accepted for new rows; so are additional nullable fields and topics.
    """
    old, new = there["shape"], given["shape"]
    fixed = [(key, old[key], new[key]) for key in ("window", "lateness", "id", "time", "by", "gold")]
    for what, was, is_now in [("format", there["format"], given["format"]), *fixed]:
        if was != is_now:
            raise OptionError(
                f"the tables in {folder} were made with {what} {_shown(was)}, and this is {_shown(is_now)}: {_CHOICE}"
            )
    was, is_now = ({name: (type, nullable) for name, type, nullable in schema["fields"]} for schema in (old, new))
    for name, kind in was.items():
        if is_now.get(name) != kind:
            other = f"{_kind(*is_now[name])} now" if name in is_now else "gone"
            difference = (
                f"the tables in {folder} were made with a field {name!r} of type {_kind(*kind)}, and it is {other}"
            )
            raise OptionError(f"{difference}: {_CHOICE}")
    for name in is_now.keys() - was.keys():
        if not is_now[name][1]:
            difference = f"the tables in {folder} have no field {name!r}, and older events won't have it"
            raise OptionError(f"{difference}: let it be null ({_kind(is_now[name][0], True)}), or take another folder")
    _compare_topics(there["topics"], given["topics"], folder)


def _compare_topics(was: Mapping[str, str], is_now: Mapping[str, str], folder: str) -> None:
    names, now = (set(topics.get("subscribe", "").split(",")) for topics in (was, is_now))
    if was != is_now and not (was.keys() == is_now.keys() == {"subscribe"} and names <= now):
        raise OptionError(
            f"the tables in {folder} were made of {_topics(was)}, and this is {_topics(is_now)}: name those "
            f"too, or {_OTHER}"
        )


_OTHER = "take another folder"
_CHOICE = f"use the same, or {_OTHER}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {text}" for name, text in value.items())
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _kind(type: str, nullable: bool) -> str:
    return f"{type}?" if nullable else type


def _topics(topics: Mapping[str, str]) -> str:
    return (
        "; ".join(f"{'topics' if name == 'subscribe' else name} {value}" for name, value in topics.items())
        or "all topics"
    )
