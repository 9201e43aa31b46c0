"""Older versions of Kafka's Java client beside 4.3: one program, compiled against each, gives on
kqueue what it gives on Kafka.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.kafka import jvm
from compat_tests.kafka.maven import Jars, java
from compat_tests.kafka.tool_host import COMPILE_TIMEOUT_S, javac

SOURCES = Path(__file__).parent / "java_versions"
RUN_TIMEOUT_S = 90
COMPLETE = "50 from v0 to v49"
LACKS = {
    "2.8.2": "abortTransaction,describeMetadataQuorum,describeProducers,describeTransactions,fenceProducers,"
    "listConfigResources,listTransactions",
    "3.9.1": "listConfigResources",
    jvm.KAFKA_VERSION: "",
}
"""Calls of the admin client that a version does not have yet."""


def jars(version: str) -> Path:
    """Return the folder with the client, fetched the first time."""
    if version == jvm.KAFKA_VERSION:
        return jvm.libs()
    line = version.rpartition(".")[0]
    pom = SOURCES / f"clients-{line}.xml"
    name = f"java-client-{version}-libs"
    variable = f"KQUEUE_JAVA_CLIENT_LIBS_{line.replace('.', '_')}"
    return Jars(f"Kafka's client {line}", pom, name, f"kafka-clients-{version}.jar", variable).fetch()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that compiles the program against a version of the client, once."""

    @functools.cache
    def compiled(version: str) -> Path:
        folder = tmp_path_factory.mktemp(version)
        options = ["-J-XX:TieredStopAtLevel=1", "-cp", f"{jars(version)}/*", "-d", str(folder)]
        subprocess.run([javac(), *options, str(SOURCES / "Features.java")], timeout=COMPILE_TIMEOUT_S, check=True)
        return folder

    return compiled


@pytest.mark.parametrize("version", LACKS)
def test_features(version: str, either: str, programs: Callable[[str], Path]) -> None:
    classpath = f"{jars(version)}/*:{programs(version)}"
    command = [java(), *jvm.OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath]
    done = subprocess.run(
        [*command, "Features", either, f"{version}-"], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=True
    )
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == {
        **{f"codec {codec}": COMPLETE for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
        "transactions": "50 from committed0 to committed49",
        **{
            f"group {assignor}": f"{COMPLETE}, committed 50"
            for assignor in ("Range", "RoundRobin", "Sticky", "CooperativeSticky")
        },
        "settings": "7200000",
        "partitions": "3",
        "deleted records": "20",
        "lacks": LACKS[version],
    }, done.stderr
