from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kqueue.spark.programs import cache_folder, is_written, plain_name, write_program


def test_cache_folder_follows_xdg() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/kqueue")
    assert cache_folder({}) == Path.home() / ".cache" / "kqueue"


def test_path_becomes_a_plain_name() -> None:
    assert plain_name(Path("/opt/a b/bin/python3.11")) == "opt-a-b-bin-python3-11"


@pytest.mark.skipif(os.name != "posix", reason="the program is a shell script")
def test_a_program_is_written_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "program"
    assert not is_written(file, "x")
    for script in ("#!/bin/sh\necho one", "#!/bin/sh\necho other"):
        write_program(file, script)
        assert is_written(file, script)
    assert subprocess.run([file], capture_output=True, text=True, check=True).stdout == "other\n"
    assert [path.name for path in file.parent.iterdir()] == ["program"]
