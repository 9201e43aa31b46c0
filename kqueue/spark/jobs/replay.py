"""Replays an archive to a broker."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.types import StructType

from kqueue.base.config_resources import ResourceType
from kqueue.base.names import did_you_mean
from kqueue.base.text import counted
from kqueue.client import Client, NewTopic
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.spark.jobs.archive import SCHEMA
from kqueue.spark.jobs.archive_layout import RECORDS, Archive, ArchivedBatch
from kqueue.spark.jobs.progress import ProgressListener, silent, watched
from kqueue.spark.session import activate
from kqueue.spark.sink.journal import PREFIX, Journal
from kqueue.spark.sink.options import AT_LEAST_ONCE, parse_options
from kqueue.spark.stores import Location, location_of, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOREVER = {"retention.ms": "-1"}
"""Settings of created topics: replayed records may be older than the broker's retention."""
TIMESTAMP_TYPE = "message.timestamp.type"
RUN = "1"
_RUN = re.compile(r"[a-zA-Z0-9._-]{1,40}")


class ReplayResult(NamedTuple):
    """rows: records sent. before: those of earlier runs. topics: targets. made: created topics."""

    rows: int
    before: int
    topics: tuple[str, ...]
    made: tuple[str, ...]


def replay(
    spark: SparkSession,
    folder: str | Location,
    target: Mapping[str, str],
    *,
    topic: str | None = None,
    create: bool = False,
    delivery: str = AT_LEAST_ONCE,
    run: str = RUN,
    tell: ProgressListener = silent,
) -> ReplayResult:
    """Send an archive to its topics, or to `topic`: same partitions, order, timestamps and headers.

    Records without a timestamp get the time of sending.

    Args:
        target: options of the kqueue sink that name the brokers, and how to connect to them.
        create: create missing topics, with unlimited retention.
        delivery: of the sink. Unless at-least-once, each batch of the archive is sent once: an
            interrupted replay continues, and a finished one sends only batches archived since.
        run: then the name of the replay; another name sends everything again.
    Raises, before any write: PipelineFailed: no archive, or a topic is missing, has another number
    of partitions, or uses LogAppendTime. During the write: RowRefused, ClientError; at-least-once
    sent records remain, and a retry duplicates them.
    """
    once = delivery != AT_LEAST_ONCE
    layout = Archive(spark, location_of(folder))
    batches = _batches(layout)
    with Client(parse_options(target, streaming=False).client) as client:
        wanted = _wanted(batches[-1], topic)
        made = _missing(client, wanted, create=create)
        if made:
            client.create_topics([NewTopic(name, wanted[name], settings=FOREVER) for name in made])
        app = _app(batches[-1].id, topic, run) if once else None
        done = _done(client, app) if app is not None else 0
    before = sum(batch.rows for batch in batches if batch.number <= done)
    left = [batch for batch in batches if batch.number > done and batch.rows]
    rows, total = 0, sum(batch.rows for batch in left)
    for some in [[batch] for batch in left] if once else [left]:
        options = {} if app is None else {"delivery": delivery, "txnAppId": app, "txnVersion": str(some[-1].number)}
        if some:
            size = sum(batch.rows for batch in some)
            with watched(spark, "replay", rows, size, total, tell):
                _send(_read(spark, layout, some), {**target, **options}, topic)
            rows += size
    return ReplayResult(rows, before, tuple(wanted), made)


def check(folder: str | Location, target: Mapping[str, str], *, topic: str | None = None, create: bool = False) -> None:
    """Raise what is wrong before Spark is needed: as `replay`. Creates nothing."""
    place = location_of(folder)
    if needs_spark(place):
        return
    wanted = _wanted(_batches(Archive(None, place))[-1], topic)
    with Client(parse_options(target, streaming=False).client) as client:
        _missing(client, wanted, create=create)


def _batches(layout: Archive) -> list[ArchivedBatch]:
    """Return the committed batches."""
    batches = layout.batches()
    if not batches:
        raise PipelineFailed(
            f"{layout.store.url} is no archive: expected a folder that `kqueue pipeline archive` has written"
        )
    return batches


def _wanted(last: ArchivedBatch, topic: str | None) -> dict[str, int]:
    """Return the target topics and their number of partitions."""
    there = last.partitions
    return dict(sorted(there.items())) if topic is None else {topic: max(there.values(), default=1)}


def _missing(client: Client, wanted: Mapping[str, int], *, create: bool) -> tuple[str, ...]:
    """Validate the targets; return the topics that are to be created. Raises: as `replay`."""
    there = client.metadata().topics
    missing = [name for name in wanted if name not in there]
    if missing and not create:
        also = f" (and {len(missing) - 1} more are missing)" if len(missing) > 1 else ""
        near = did_you_mean(missing[0], [name for name, one in there.items() if not one.is_internal])
        what = f"there is no topic {missing[0]!r} on {client.options.bootstrap}{near}{also}"
        partitions = counted(wanted[missing[0]], "partition")
        raise PipelineFailed(f"{what}: make it with {partitions}, or have it made with --create")
    for name, count in wanted.items():
        if name in there and len(there[name].partitions) != count:
            there_count = counted(len(there[name].partitions), "partition")
            raise PipelineFailed(
                f"topic {name!r} has {there_count}, and the archive's records come from {count}: send "
                f"them to a topic with {count}"
            )
    existing = [name for name in wanted if name in there]
    for name, settings in client.configs(ResourceType.TOPIC, existing, [TIMESTAMP_TYPE]).items():
        if TIMESTAMP_TYPE in settings and settings[TIMESTAMP_TYPE].value == "LogAppendTime":
            what = f"topic {name!r} gives records the time of their arrival ({TIMESTAMP_TYPE}=LogAppendTime)"
            raise PipelineFailed(
                f"{what}, and a replay is to keep their own: set it to CreateTime, or send to another topic"
            )
    return tuple(missing)


def check_run(run: str) -> None:
    """Raise OptionError if a run can't have this name."""
    if not _RUN.fullmatch(run):
        raise OptionError(f"run: expected up to 40 letters, digits, '.', '_' and '-', found {run!r:.100}")


def _app(archive_id: str, topic: str | None, run: str) -> str:
    """Return the txnAppId, unique per archive, target and run."""
    check_run(run)
    target = hashlib.sha256((topic or "").encode()).hexdigest()[:12]
    return f"replay-{archive_id[:32]}-{target}-{run}"


def _done(client: Client, app: str) -> int:
    """Return the last batch that was sent completely; 0: none."""
    if PREFIX + app not in client.metadata().topics:
        return 0
    return max(Journal(client, app).read().done, 0)


def _read(spark: SparkSession, layout: Archive, batches: Sequence[ArchivedBatch]) -> DataFrame:
    """Return the records of these batches, each partition together and in order."""
    files = [name for batch in batches for name in batch.files]
    records = layout.store.frame(spark, StructType.fromDDL(SCHEMA), RECORDS, files)
    return records.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")


def _send(records: DataFrame, options: Mapping[str, str], topic: str | None) -> None:
    frame = records.select("key", "value", "headers", "timestamp", "topic", "partition")
    activate(frame.sparkSession)
    to_topic = {} if topic is None else {"topic": topic}
    frame.write.format("kqueue").mode("append").options(**options, **to_topic).save()
