"""Runs ingest, archive and replay: ``running_jobs.py BOOTSTRAP FOLDER SETTINGS``.

SETTINGS: those of an object store, as JSON; {}: the results go to FOLDER. The process can be
killed. Each job has several batches and prints its progress: ``bronze 50``.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kqueue.spark.jobs.archive import archive
from kqueue.spark.jobs.ingest import ingest
from kqueue.spark.jobs.replay import replay
from kqueue.spark.session import session
from kqueue.spark.stores import Location

SOURCE, TARGET = "flights", "again"
SETTINGS: dict[str, object] = {
    "spark.driver.memory": "480m",
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    "spark.sql.shuffle.partitions": 2,
}
STAGES = {"archive": ("archive",), "replay": ("replay",), "ingest": ("bronze", "silver", "quarantine", "gold")}


def places(folder: Path, settings: dict[str, str]) -> tuple[Location, Location]:
    """Return where the archive and the tables are."""
    if not settings:
        return Location(str(folder / "kept")), Location(str(folder / "tables"))
    prefix = f"s3://bucket/killed/{folder.name}"
    tables = Location(f"{prefix}/tables", settings, checkpoint=str(folder / "progress"))
    return Location(f"{prefix}/kept", settings), tables


def run(
    spark: SparkSession, bootstrap: str, kept: Location, tables: Location, job: str, *, finish: bool = False
) -> None:
    """Run one of `STAGES` for all current records.

    Args: finish: ingest also completes the last hours.
    """
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": SOURCE}
    if job == "archive":
        archive(spark, source, kept, batch_bytes=15_000, tell=say)
    elif job == "replay":
        replay(
            spark,
            kept,
            {"kafka.bootstrap.servers": bootstrap},
            topic=TARGET,
            delivery="exactly-once",
            tell=say,
        )
    else:
        limited = {**source, "maxOffsetsPerTrigger": "75"}
        try:
            ingest(spark, limited, tables, finish=finish, tell=say)
        except StreamingQueryException as error:
            # On a busy machine Spark gives a Python process too little time to start: 10 s.
            if "failed to connect back" not in str(error):
                raise
            ingest(spark, limited, tables, finish=finish, tell=say)


def say(stage: str, *rows: int | None) -> None:
    print(stage, *rows, flush=True)


def main(bootstrap: str, folder: Path, settings: str) -> None:
    kept, tables = places(folder, json.loads(settings))
    spark = session("killed", "local[2]", settings=SETTINGS | {"spark.local.dir": folder / "scratch"})

    def all_of(jobs: tuple[str, ...]) -> None:
        for job in jobs:
            run(spark, bootstrap, kept, tables, job)

    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(all_of, jobs) for jobs in (("archive", "replay"), ("ingest",))]:
            done.result()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
