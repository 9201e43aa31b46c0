"""A pytest plugin: `--report FILE` writes what a client does here, feature by feature, as JSON.

A feature is a constant of `clients/adapters/contract.py`. A test names those that it needs with the
fixture `needs`. Tests that name none count as `BASICS`: what every client offers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from compat_tests.clients import adapters
from compat_tests.clients.adapters import contract

FEATURE = "feature"
BASICS = "produce, consume, groups, administration"
FEATURES = (
    BASICS,
    *(value for name, value in vars(contract).items() if name.isupper() and isinstance(value, str)),
)
PASSED, FAILED, NOT_OFFERED = "passed", "failed", "not offered"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report", metavar="FILE", type=Path, help="write a report of the client's features to a file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config), "report")


class Report:
    """Collects the outcomes of all tests, those of pytest-xdist's workers too."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path = config.getoption("report")
        names = config.getoption("clients")
        if len(names) > 1:
            raise pytest.UsageError("--report is of one client: give one --client")
        self._client = adapters.load(names[0])
        self._counts = {feature: {PASSED: 0, FAILED: 0} for feature in FEATURES}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        named = [str(value) for name, value in report.user_properties if name == FEATURE]
        for feature in named or [BASICS]:
            if report.failed:
                self._counts[feature][FAILED] += 1
            elif report.passed and report.when == "call":
                self._counts[feature][PASSED] += 1

    def pytest_sessionfinish(self) -> None:
        text = json.dumps(
            {
                "environment": os.environ.get("TOX_ENV_NAME", ""),
                "client": self._client.name,
                "version": self._client.version,
                "python": ".".join(map(str, sys.version_info[:2])),
                "features": {feature: self._result(feature) for feature in FEATURES},
            },
            indent=1,
        )
        self._file.write_text(text + "\n")

    def _result(self, feature: str) -> dict[str, object]:
        """Return the result, and how many tests it is of."""
        counts = self._counts[feature]
        if feature != BASICS and feature not in self._client.features:
            return {"result": FAILED if counts[FAILED] else NOT_OFFERED}
        result = PASSED if counts[PASSED] and not counts[FAILED] else FAILED
        return {"result": result, **counts}
