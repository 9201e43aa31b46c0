"""Commands and programs on a standalone cluster, most as docs/spark-cluster.md has them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from click.testing import CliRunner

import kqueue
from compat_tests.spark_cluster.conftest import KQUEUE, LITTLE, Filled, run
from compat_tests.spark_cluster.standalone import Standalone
from kqueue.cli.app import kqueue as command

TEXT = (Path(__file__).parents[2] / "docs" / "spark-cluster.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = "".join(re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)).splitlines()
MASTER = "\nprint(spark.sparkContext.master)\n"


def test_documented_program(
    cluster: Standalone, broker: kqueue.Broker, filled: Filled, archive: Path, tmp_path: Path
) -> None:
    """By spark-submit, as documented; the application takes the master of the command."""
    filled(100, "orders")
    (tmp_path / "app.py").write_text(PROGRAMS[0] + MASTER)
    (tmp_path / archive.name).symlink_to(archive)
    (line,) = [line for line in COMMANDS if "spark-submit" in line]
    variables, _, words = line.partition("spark-submit ")
    done = run(
        KQUEUE.with_name("spark-submit"), *LITTLE, "--driver-memory", "500m", *placed(words, cluster, broker).split(),
        cwd=tmp_path, **dict(one.split("=") for one in variables.replace("=python ", f"={sys.executable} ").split()),
    )  # fmt: skip
    assert f"records: 100\n{cluster.master}" in done.stdout, done.stderr[-3000:]


def test_documented_program_in_a_session_that_does_not_find_the_format(
    broker: kqueue.Broker, filled: Filled, tmp_path: Path
) -> None:
    """Java looks formats up with ``python3``, which has no kqueue."""
    filled(100, "orders")
    (tmp_path / "app.py").write_text(PROGRAMS[1] + MASTER)
    settings = ("spark.pyspark.driver.python", "spark.pyspark.python")
    done = run(
        KQUEUE.with_name("spark-submit"), "--master", "local[1]", *LITTLE, "--driver-memory", "500m",
        *(word for name in settings for word in ("--conf", f"{name}={sys.executable}")), "app.py", broker.bootstrap,
        cwd=tmp_path,
    )  # fmt: skip
    assert "records: 100\nlocal[1]" in done.stdout, done.stderr[-3000:]


def test_documented_commands(
    cluster: Standalone, broker: kqueue.Broker, filled: Filled, archive: Path, tmp_path: Path
) -> None:
    """All but that which packs, whose archive this is."""
    filled(100, "orders")
    (tmp_path / archive.name).symlink_to(archive)
    first, *jobs = [line for line in COMMANDS if line.startswith("kqueue ")]
    assert first == "kqueue pipeline pack"
    for line in jobs[:1]:
        words = placed(line, cluster, broker).replace("/shared", str(tmp_path)).split()
        done = run(KQUEUE, *words[1:], *LITTLE, cwd=tmp_path, KQUEUE_BOOTSTRAP=broker.bootstrap)
        assert done.returncode == 0, done.stderr
    assert "Archived 100 records" in done.stdout
    for line in jobs:
        words = placed(line, cluster, broker).split()[1:]
        assert CliRunner().invoke(command, [*words, "--help"]).exit_code == 0


def placed(line: str, cluster: Standalone, broker: kqueue.Broker) -> str:
    return line.replace("spark://HOST:7077", cluster.master).replace("BROKER:9092", broker.bootstrap)
