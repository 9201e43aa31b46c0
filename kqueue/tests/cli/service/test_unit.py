from __future__ import annotations

from pathlib import Path

from kqueue.cli.service.unit import installed_executable
from kqueue.tests.cli.service.support import UNIT_PATH, install


def test_the_executable_is_that_of_the_installed_unit(tmp_path: Path) -> None:
    assert installed_executable(tmp_path) == ""
    install(tmp_path, "/usr/local/bin/kqueue")
    assert installed_executable(tmp_path) == "/usr/local/bin/kqueue"
    (tmp_path / UNIT_PATH).write_bytes(b"\xff[Service]\n")
    assert installed_executable(tmp_path) == ""
