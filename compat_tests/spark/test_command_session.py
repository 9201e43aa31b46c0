"""The Spark session of a `kqueue pipeline` command ends with one short message."""

from __future__ import annotations

import signal

import click
import pytest
from pyspark.sql import SparkSession

from kqueue.cli.pipeline.spark_command import session
from kqueue.spark.errors import PipelineFailed, SqlRefused


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


def test_error_is_reported_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(click.ClickException) as raised, session("local[1]") as lent:
        lent.sql("select nonsense")
    assert raised.value.exit_code == 1
    assert raised.value.message.startswith("[UNRESOLVED_COLUMN")
    assert "\n" not in raised.value.message
    with pytest.raises(click.ClickException, match="no such thing") as raised, session("local[1]"):
        raise PipelineFailed("no such thing")
    assert raised.value.exit_code == 1
    with pytest.raises(click.UsageError, match="rules: below 0: no SQL") as raised, session("local[1]"):
        raise SqlRefused("rules: below 0: no SQL")
    assert raised.value.exit_code == 2
