from __future__ import annotations

import os
from pathlib import Path

import pytest

from kqueue.collect import birth_time
from kqueue.collect.birth_time import birth_time_ns


def test_birth_time_is_kept_when_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a")
    os.utime(path, ns=(5, 5))
    with path.open("r+b") as file:
        born_ns = birth_time_ns(file.fileno())
        if born_ns is None:
            pytest.skip("this file system records no birth time")
        file.truncate(0)
        file.flush()
        assert birth_time_ns(file.fileno()) == born_ns
        assert born_ns > 1_600_000_000_000_000_000


def test_birth_time_is_unknown_without_statx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(birth_time, "_statx", lambda: None)
    with (tmp_path / "log").open("wb") as file:
        if not hasattr(os.fstat(file.fileno()), "st_birthtime"):
            assert birth_time_ns(file.fileno()) is None


def test_birth_time_is_unknown_where_the_file_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for result in (0, -1):  # no bit in the mask; the call failed
        monkeypatch.setattr(birth_time, "_statx", lambda result=result: lambda *arguments: result)
        with (tmp_path / "log").open("wb") as file:
            if not hasattr(os.fstat(file.fileno()), "st_birthtime"):
                assert birth_time_ns(file.fileno()) is None
