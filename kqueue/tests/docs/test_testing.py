"""Tests of docs/testing.md and docs/migrating.md: their programs pass, run by pytest as a reader's
would be.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.testing.process_environment import process_environment
from kqueue.tests.tables import for_each

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("testing.md", "migrating.md")
PASSED = re.compile(r"^(\d+) passed", re.MULTILINE)


def text(page: str) -> str:
    return (DOCS / page).read_text()


def programs(page: str) -> list[str]:
    """Return the blocks that run; a block of "py" shows the old way, and needs other packages."""
    return re.findall(r"^```python\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_every_recipe_is_a_test_that_passes(page: str, tmp_path: Path) -> None:
    tests = 0
    for number, program in enumerate(programs(page)):
        count = len(re.findall(r"^ *(?:async )?def test_", program, re.MULTILINE))
        name = f"test_{number}.py" if count else "conftest.py"
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(program)
        tests += count
    assert tests >= 5
    environment = {
        name: value for name, value in process_environment().items() if not name.startswith(("KAFKA_", "PYTEST_"))
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = PASSED.search(ran.stdout)
    assert passed is not None, ran.stdout
    assert int(passed[1]) >= tests


@for_each("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text(page)):
        assert (DOCS / link).exists(), link


@for_each("page", PAGES)
def test_the_named_fixtures_exist(page: str) -> None:
    from kqueue.testing import pytest_plugin

    named = set(re.findall(r"`(kafka_(?!python)\w+)`", text(page)))
    assert named
    assert all(hasattr(pytest_plugin, name) for name in named)
