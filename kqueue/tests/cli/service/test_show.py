from __future__ import annotations

import json

from kqueue.cli.service.layout import TARGETS
from kqueue.tests.cli.service.support import EXECUTABLE, run


def test_one_file_is_printed_as_it_is_and_several_with_their_paths() -> None:
    unit = run("show", "kqueue.service", "--executable", EXECUTABLE).output
    assert f"ExecStart={EXECUTABLE} serve" in unit
    printed = run("show", "--executable", EXECUTABLE).output
    assert [line for line in printed.splitlines() if line.startswith("# /")] == [
        f"# /{one}" for one in TARGETS.values()
    ]
    assert unit in printed
    as_json = json.loads(run("show", "--executable", EXECUTABLE, "-o", "json").output)
    assert as_json[f"/{TARGETS['kqueue.service']}"] == unit
