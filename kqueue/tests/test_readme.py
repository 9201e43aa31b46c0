"""Tests of README. `tox -e docs` runs those of the pages of docs/, in `kqueue/tests/docs`."""

from __future__ import annotations

from pathlib import Path

from kqueue.tests.doc_pages import BY_TOX, DEMO, README, run_blocks

WORDS_MAX = 1200


def test_the_two_commands_for_new_users_come_first() -> None:
    assert README.commands()[:2] == [DEMO, BY_TOX]


def test_readme_has_fewer_words_than_a_landing_page_may_have() -> None:
    assert len(README.text.split()) < WORDS_MAX


def test_every_command_and_program_runs(tmp_path: Path) -> None:
    run_blocks(README, tmp_path)
