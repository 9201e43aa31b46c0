"""Tests of docs/testcontainers.md: both programs differ by one import, those for kqueue pass, and
what the tables name exists.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from kqueue.testing.containers import KafkaContainer, RedpandaContainer
from kqueue.tests.doc_pages import Page, run_tests

PAGE = Page("docs/testcontainers.md")
(BEFORE,) = PAGE.blocks("py")
AFTER, _ = PAGE.blocks("python")


def test_the_suite_moves_by_one_import() -> None:
    changed = [line for line in difflib.ndiff(BEFORE.splitlines(), AFTER.splitlines()) if line[0] in "-+"]
    (shown,) = PAGE.blocks("diff")
    assert sorted(line[0] + line[2:] for line in changed) == sorted(shown.splitlines())


def test_methods_that_the_tables_name_exist() -> None:
    named = set(re.findall(r"\b((?:with|get|copy)_\w+|exec|waiting_for|start|stop)(?:\(|`)", PAGE.text))
    assert len(named) >= 15
    for name in named - {"get_schema_registry_address"}:
        assert callable(getattr(KafkaContainer, name)), name
    assert callable(RedpandaContainer.get_schema_registry_address)


@pytest.mark.long
def test_the_programs_for_kqueue_pass(tmp_path: Path) -> None:
    run_tests(PAGE.blocks("python"), tmp_path)
