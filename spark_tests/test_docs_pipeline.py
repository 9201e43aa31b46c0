"""docs/pipeline.md is true: its commands run here, one after the other."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaProducer
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.cli.demo.events import events, replay
from kqueue.cli.demo.flights import Flights
from kqueue.spark.shapes import FLIGHTS

TEXT = (Path(__file__).parents[1] / "docs" / "pipeline.md").read_text()
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) for line in block.splitlines()]


def test_every_command(spark: SparkSession, broker: kqueue.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for topic in ("flights", "again"):
        broker.create_topic(topic, 2, retention_ms=-1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    replay(producer, "flights", events(itertools.islice(Flights(), 200)))
    producer.close()
    for line in COMMANDS:
        result = CliRunner().invoke(command, line.split()[1:], env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
        assert result.exit_code == 0, f"{line}\n{result.output}"
    first, again = ([record.value for record in broker.topics[topic].records()] for topic in ("flights", "again"))
    assert first == again
    assert (tmp_path / "kept/records/topic=flights/date=2013-01-01").is_dir()
    told = re.findall(r"^\| `tables/(\w+)`", TEXT, re.MULTILINE)
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {*told, "checkpoints"}


def test_what_is_told_of_the_transformations() -> None:
    assert f"`--lateness` ({FLIGHTS.lateness})" in TEXT
    (named,) = re.findall(r"JSON with (.*?)\. Four", TEXT)
    assert re.split(r", | and ", named) == list(FLIGHTS.names)
