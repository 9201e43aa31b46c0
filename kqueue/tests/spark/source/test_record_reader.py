from __future__ import annotations

import logging

import pytest

from kqueue.spark.errors import DataLost
from kqueue.spark.source.record_reader import data_loss_handler, missing_topic


def test_lost_records_are_raised_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        DataLost, match="^five records are gone; set failOnDataLoss to false to go on with what is there$"
    ):
        data_loss_handler(True)("five records are gone")
    with caplog.at_level(logging.WARNING, "kqueue.spark"):
        data_loss_handler(False)("five records are gone")
    assert "five records are gone; going on" in caplog.text


def test_the_nearest_topic_is_offered() -> None:
    assert (
        missing_topic("order", ["orders", "flights"], "here")
        == "there is no topic 'order' here; did you mean 'orders'?"
    )
    assert missing_topic("xyz", ["orders", "flights"], "here") == "there is no topic 'xyz' here"
