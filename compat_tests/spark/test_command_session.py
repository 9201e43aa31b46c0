"""How the Spark session of a `kqueue pipeline` command ends."""

from __future__ import annotations

import signal

import click
import pytest
from pyspark.sql import SparkSession

from kqueue.cli.pipeline.spark_command import session
from kqueue.spark.errors import PipelineFailed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_command_with_short_message(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(click.exceptions.Exit) as raised, session("local[1]"):
        signal.raise_signal(number)
    assert raised.value.exit_code == 130
    assert capsys.readouterr().err.endswith("Interrupted.\n")
    assert signal.getsignal(number) == before
    assert spark.range(1).count() == 1  # an existing session is left running


def test_error_is_reported_in_one_line(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.Exit) as raised, session("local[1]", exit_code=2) as lent:
        lent.sql("select nonsense")
    assert raised.value.exit_code == 2
    told = capsys.readouterr().err
    assert told.startswith("Error: [UNRESOLVED_COLUMN")
    assert told.count("\n") == 1
    with pytest.raises(click.exceptions.Exit) as raised, session("local[1]"):
        raise PipelineFailed("no such thing")
    assert raised.value.exit_code == 1
