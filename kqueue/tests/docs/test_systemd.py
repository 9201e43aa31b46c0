"""docs/systemd.md: its commands run, and its tables have what is installed."""

from __future__ import annotations

import re
from pathlib import Path

from kqueue.cli.service.layout import DATA, RECORD, TARGETS, service_files
from kqueue.tests.doc_pages import Page, run_line

PAGE = Page("docs/systemd.md")


def test_the_commands_run_in_their_order(tmp_path: Path) -> None:
    printed = {line: run_line(line, tmp_path) for line in PAGE.commands()}
    assert len(printed) == 7
    assert [path for path in (tmp_path / "image").rglob("*") if path.is_file()] == []


def test_the_table_has_all_files() -> None:
    named = set(re.findall(r"^\| `/(\S+)` \|", PAGE.text, re.MULTILINE))
    assert named == {*TARGETS.values(), RECORD, DATA, "etc/default/kqueue"}


def test_what_the_unit_leaves_open_is_not_set() -> None:
    unit = next(file.text for file in service_files("/opt/kqueue/bin/kqueue") if file.name == "kqueue.service")
    for name in ("MemoryDenyWriteExecute", "ProcSubset", "IPAddressDeny"):
        assert f"`{name}`" in PAGE.text
        assert not re.search(rf"^{name}=", unit, re.MULTILINE)
    assert "WatchdogSec=30" in unit
    assert "WatchdogSec=30" in PAGE.text
