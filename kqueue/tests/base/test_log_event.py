from __future__ import annotations

import logging
import pickle

import pytest

from kqueue.base.log_event import TEXT_LENGTH_MAX, ForwardedLine, LogEvent, event_of, plain_fields
from kqueue.tests.tables import for_each

logger = logging.getLogger("kqueue.tests.base")
FULL = LogEvent("disk.full", logging.WARNING, "A disk is full.")


class WithoutText:
    def __str__(self) -> str:
        raise ValueError("no")


def test_fields_fill_the_text_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    FULL.log(logger, "%s is full: %d bytes", location="/data", free=3)
    (record,) = caplog.records
    assert record.getMessage() == "/data is full: 3 bytes"
    assert (record.levelno, event_of(record), plain_fields(record)) == (
        logging.WARNING,
        "disk.full",
        {"location": "/data", "free": 3},
    )
    assert record.funcName == "test_fields_fill_the_text_in_their_order"


def test_a_percent_sign_in_a_field_is_text(caplog: pytest.LogCaptureFixture) -> None:
    FULL.log(logger, "%s is full", location="%d %s")
    assert caplog.messages == ["%d %s is full"]


def test_a_traceback_is_that_of_the_error(caplog: pytest.LogCaptureFixture) -> None:
    FULL.log(logger, "failed", exc_info=ValueError("bad"))
    assert caplog.records[0].exc_info is not None
    assert isinstance(caplog.records[0].exc_info[1], ValueError)


def test_a_level_that_is_off_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger.name):
        FULL.log(logger, "%s is full", location="/data")
    assert caplog.records == []


def test_extra_names_the_event_of_a_line_of_logging(caplog: pytest.LogCaptureFixture) -> None:
    logger.warning("100 %", extra=FULL.extra(level=1))
    assert caplog.messages == ["100 %"]
    assert (event_of(caplog.records[0]), plain_fields(caplog.records[0])) == ("disk.full", {"level": 1})


def test_a_line_of_a_library_has_no_event(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("kazoo").warning("lost %s", "it")
    assert (event_of(caplog.records[0]), plain_fields(caplog.records[0])) == (None, {})


@for_each(
    "value, plain",
    [
        (None, None),
        (True, True),
        (7, 7),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (OSError("bad"), "bad"),
        ([1], "[1]"),
        (WithoutText(), "WithoutText without a text: ValueError"),
        ("x" * 32_000, "x" * TEXT_LENGTH_MAX + "... (32000 characters)"),
    ],
)
def test_values_are_numbers_and_bounded_texts(value: object, plain: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    logger.warning("", extra=FULL.extra(value=value))
    assert plain_fields(caplog.records[0]) == {"value": plain}


def test_a_line_of_another_process_keeps_event_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    FULL.log(logger, "%s is full", location=OSError("disk"))
    line: ForwardedLine = pickle.loads(pickle.dumps(ForwardedLine.of(caplog.records[0], "disk is full")))
    caplog.clear()
    line.log(logger)
    (record,) = caplog.records
    assert (record.getMessage(), record.levelno) == ("disk is full", logging.WARNING)
    assert (event_of(record), plain_fields(record)) == ("disk.full", {"location": "disk"})
