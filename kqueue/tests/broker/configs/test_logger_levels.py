from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kqueue.base.config_resources import ConfigChange, ConfigOperation
from kqueue.base.errors import InvalidConfig, InvalidRequest
from kqueue.broker.configs.logger_levels import LoggerLevels, level_name

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
NAME = "kqueue.tests.levels"
logger = logging.getLogger(NAME)


@pytest.fixture
def levels() -> Iterator[LoggerLevels]:
    levels = LoggerLevels()
    yield levels
    levels.restore()


@pytest.mark.parametrize(
    ("name", "python"), [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)]
)
def test_levels_have_kafkas_names(levels: LoggerLevels, name: str, python: int) -> None:
    change = [ConfigChange(SET, NAME, name)]
    levels.check(change)
    levels.apply(change)
    assert logger.level == python
    assert levels.levels()[NAME] == name == level_name(python)


def test_a_deleted_level_is_that_of_the_parent(levels: LoggerLevels) -> None:
    levels.apply([ConfigChange(SET, "root", "ERROR"), ConfigChange(SET, NAME, "TRACE")])
    assert logging.getLogger("kqueue").level == logging.ERROR
    levels.apply([ConfigChange(DELETE, NAME)])
    assert levels.levels()[NAME] == "ERROR"


def test_restore_undoes_every_change() -> None:
    before = logger.level, logging.getLogger("kqueue").level
    levels = LoggerLevels()
    levels.apply([ConfigChange(SET, NAME, "TRACE"), ConfigChange(SET, "root", "FATAL")])
    levels.apply([ConfigChange(SET, NAME, "WARN")])
    levels.restore()
    assert (logger.level, logging.getLogger("kqueue").level) == before


def test_only_loggers_of_the_broker_are_listed(levels: LoggerLevels) -> None:
    logging.getLogger("somebody.else")
    names = list(levels.levels())
    assert names[0] == "root"
    assert all(name.startswith("kqueue.") for name in names[1:])
    assert names[1:] == sorted(names[1:])
    assert "kqueue.broker" in names


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (ConfigChange(SET, "kqueue.brokr", "INFO"), InvalidConfig, "no logger 'kqueue.brokr'.*kqueue.broker"),
        (ConfigChange(SET, "somebody.else", "INFO"), InvalidConfig, "no logger"),
        (ConfigChange(SET, "kqueue", "INFO"), InvalidConfig, "no logger"),
        (ConfigChange(SET, NAME, "LOUD"), InvalidConfig, "expected a level of FATAL, .*found 'LOUD'"),
        (ConfigChange(SET, NAME, "info"), InvalidConfig, "expected a level"),
        (ConfigChange(SET, NAME, None), InvalidRequest, "found null"),
        (ConfigChange(APPEND, NAME, "INFO"), InvalidRequest, "APPEND is not for loggers"),
        (ConfigChange(SUBTRACT, NAME, "INFO"), InvalidRequest, "SUBTRACT is not for loggers"),
        (ConfigChange(DELETE, "root"), InvalidRequest, "root can't be removed"),
    ],
)
def test_wrong_changes_are_refused(
    levels: LoggerLevels, change: ConfigChange, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        levels.check([change])
    with pytest.raises(InvalidRequest, match="twice"):
        levels.check([change, change])
