from __future__ import annotations

import re
from pathlib import Path

import pytest

from kqueue.config.properties import from_environment
from kqueue.testing.process_environment import process_environment

ROOT = Path(__file__).parents[3]
STARTS = re.compile(r"\"kqueue\.cli\",.*\"serve\"", re.DOTALL)
STARTED = ("benchmarks", "cluster_tests", "compat_tests", "kqueue/tests", "plugins")


def test_variables_of_the_tests_do_not_reach_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQUEUE_KAFKA_LIBS", "/jars")
    monkeypatch.setenv("KQUEUE_LOG_DIRS", "/ours")
    monkeypatch.setenv("OTHER", "stays")
    environment = process_environment(KQUEUE_NODE_ID="3")
    assert environment["OTHER"] == "stays"
    assert {name: row.value for name, row in from_environment(environment).items()} == {"node.id": "3"}


def test_every_module_that_serves_in_a_process_uses_it() -> None:
    """Modules that run the command in the test's process do not match: they import it."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for folder in STARTED
        for path in (ROOT / folder).rglob("*.py")
    }
    serving = {name for name, text in texts.items() if STARTS.search(text)}
    assert len(serving) > 5
    assert {name for name in serving if "process_environment(" not in texts[name]} == set()
