"""A pytest plugin: `--call-report FILE` writes how many calls a client makes here, as JSON.

A test that makes every call of a client, and compares each result with Kafka's, says so with the
fixture `count_calls`. Tests of one client are added up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

CALLS = "calls"
CLIENT, LANGUAGE, MADE, SAME = "client", "language", "made", "same"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--call-report", metavar="FILE", type=Path, help="write how many calls each client makes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("call_report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(CallReport(config.getoption("call_report")), "call report")


@pytest.fixture
def count_calls(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Return a function that counts the calls of a client, and those with Kafka's result."""

    def count(client: str, language: str, results: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
        same = sum(call in expected and expected[call] == result for call, result in results.items())
        record_property(CALLS, {CLIENT: client, LANGUAGE: language, MADE: len(results), SAME: same})

    return count


class CallReport:
    """Collects the calls of all tests."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._clients: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == CALLS and isinstance(value, dict):
                total = self._clients.setdefault(value[CLIENT], {**value, MADE: 0, SAME: 0})
                total[MADE] += value[MADE]
                total[SAME] += value[SAME]

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps({CALLS: list(self._clients.values())}, indent=1) + "\n")
