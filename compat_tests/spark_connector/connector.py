"""Spark's own connector, fetched once, and a session that has it."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from compat_tests.kafka.maven import Jars, java_missing
from compat_tests.spark.spark_home import spark_home

CONNECTOR_VERSION = "4.2.0"
DRIVER_MEMORY = "768m"
# As many tasks can run at once; Real-Time Mode needs one for every partition that it reads.
SLOTS = 2
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""JVM options for many short queries: only the first JIT compiler, the serial collector, and no
verification of Spark's classes.
"""
_HERE = Path(__file__).parent
JARS = Jars(
    what="Spark's Kafka connector",
    pom=_HERE / "pom.xml",
    name=f"spark-kafka-{CONNECTOR_VERSION}-libs",
    mark=f"spark-sql-kafka-0-10_2.13-{CONNECTOR_VERSION}.jar",
    variable="KQUEUE_SPARK_KAFKA_LIBS",
)


@functools.cache
def missing() -> str | None:
    """Why the connector can't be used here; None: it can, once its jars are fetched."""
    return java_missing() or JARS.missing()


def start(folder: Path) -> SparkSession:
    """A session of two tasks at once, in one JVM, that keeps its files in `folder` and writes to
    `folder`/spark.log what goes wrong.
    """
    jars = ",".join(str(jar) for jar in sorted(JARS.fetch().glob("*.jar")))
    logging = f"-Dlog4j2.configurationFile={_HERE / 'log4j2.properties'} -Dkqueue.spark.log={folder / 'spark.log'}"
    settings = {
        "spark.jars": jars,
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": f"{JAVA} -XX:-UsePerfData -Djava.io.tmpdir={folder} {logging}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",  # 5 s by default
        # The default implementation runs `readlink` sixteen times for each checkpoint file.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # brokers come and go here; clients of one that is gone should not try it for minutes
        "spark.kafka.producer.cache.timeout": "10s",
        "spark.kafka.producer.cache.evictorThreadRunInterval": "5s",
        "spark.kafka.consumer.cache.timeout": "10s",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for kqueue's format beside it
    os.environ["SPARK_HOME"] = str(spark_home(folder / "home"))
    builder = SparkSession.builder.master(f"local[{SLOTS}]").appName("kqueue-stock-tests")
    return builder.config(map=settings).getOrCreate()
