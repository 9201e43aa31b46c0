"""Levels of the broker's loggers, changed at run time and not stored. Source: KIP-412.

Logger `root` is the logger ``kqueue``, above all others of the broker: the root logger of Python
belongs to the program around the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kqueue.base.config_resources import ConfigChange, ConfigOperation
from kqueue.base.errors import InvalidConfig, InvalidRequest
from kqueue.base.names import did_you_mean
from kqueue.broker.config_changes import check_names

ROOT = "root"
PACKAGE = "kqueue"
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
"""Python's level of each level of Kafka."""


class LoggerLevels:
    """The loggers of one process. Levels that this object has set are reset by `restore`."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}

    def levels(self) -> dict[str, str]:
        """Return the level in force of each logger, in Kafka's names, sorted."""
        return {name: level_name(_logger(name).getEffectiveLevel()) for name in [ROOT, *_logger_names()]}

    def check(self, changes: Sequence[ConfigChange]) -> None:
        """Check changes of levels.

        Raises: InvalidConfig: no such logger or level. InvalidRequest: a logger twice, APPEND,
            SUBTRACT, or DELETE of the root's level.
        """
        check_names([change.name for change in changes])
        names = {ROOT, *_logger_names()}
        for operation, name, value in changes:
            if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
                raise InvalidRequest(
                    f"{operation.name} operation is not allowed for the BROKER_LOGGER resource: {name}: "
                    f"{operation.name} is not for loggers, expected SET or DELETE"
                )
            if name not in names:
                raise InvalidConfig(
                    f"Logger {name[:200]} does not exist!: there is no logger {name[:200]!r}{did_you_mean(name, names)}"
                )
            if operation is ConfigOperation.DELETE:
                if name == ROOT:
                    raise InvalidRequest(
                        "Removing the log level of the root logger is not allowed: the level of logger root can't be "
                        "removed, only set"
                    )
            elif value is None:
                raise InvalidRequest(
                    f"Null value not supported for : {name}: expected a level, found null; use DELETE to unset it"
                )
            elif value not in LEVELS:
                raise InvalidConfig(
                    f"Cannot set the log level of {name} to {value[:80]} as it is not a supported log level. Valid log "
                    f"levels are {', '.join(sorted(LEVELS))}: expected a level of {', '.join(LEVELS)}, found "
                    f"{value[:80]!r}"
                )

    def apply(self, changes: Sequence[ConfigChange]) -> None:
        """Make checked changes. A logger whose level is deleted has that of its parent."""
        for operation, name, value in changes:
            logger = _logger(name)
            self._before.setdefault(name, logger.level)
            deleted = operation is ConfigOperation.DELETE or value is None
            logger.setLevel(logging.NOTSET if deleted else LEVELS[str(value)])

    def restore(self) -> None:
        """Set all levels back to those before the first change."""
        for name, level in self._before.items():
            _logger(name).setLevel(level)
        self._before.clear()


def level_name(level: int) -> str:
    """Return Kafka's name of a level of Python: the nearest one that shows no less."""
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(PACKAGE if name == ROOT else name)


def _logger_names() -> list[str]:
    loggers = logging.root.manager.loggerDict
    return sorted(
        name
        for name, logger in list(loggers.items())
        if name.startswith(f"{PACKAGE}.") and isinstance(logger, logging.Logger)
    )
