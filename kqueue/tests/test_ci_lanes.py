"""Tests of `.ci/lanes.sh`, which runs the parts of `.ci/run`: in order, side by side, and no longer
than their bound.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from kqueue.tests.source_tree import ROOT
from kqueue.tests.waits import eventually

pytestmark = pytest.mark.skipif(shutil.which("timeout") is None, reason="there is no timeout(1)")
HEAD = f'set -uo pipefail\nwork=$1\nsource "{ROOT}/.ci/lanes.sh"\n'


def start(folder: Path, parts: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", HEAD + parts, "ci", str(folder)],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def told(folder: Path, parts: str, **environment: str) -> tuple[int, str]:
    with start(folder, parts, **environment) as process:
        said, _ = process.communicate(timeout=60)
        return process.returncode, said


def test_two_parts_run_at_a_time_and_each_tells_all_it_said_once_it_has_ended(tmp_path: Path) -> None:
    # each of the first two waits for what the other does; the third finds both done
    parts = """
        until_there() { until [[ -e $1 ]]; do sleep 0.02; done; }
        one() { echo one begins; echo > from-one; until_there from-two; echo one ends; }
        two() { echo two begins; until_there from-one; echo > from-two; sleep 0.2; echo two ends; }
        export -f until_there one two
        queue one bash -c one
        queue two bash -c two
        queue three bash -c 'ls from-one from-two'
        finish
        summary
    """
    status, said = told(tmp_path, parts)
    assert status == 0
    assert "=== one:\none begins\none ends\n=== one: passed" in said
    assert "=== two:\ntwo begins\ntwo ends\n=== two: passed" in said
    assert "=== three:\nfrom-one\nfrom-two\n" in said
    assert said.endswith("ci: 3 passed, 0 failed, 0 skipped\n")


def test_a_part_that_can_not_begin_in_time_is_skipped_and_named(tmp_path: Path) -> None:
    status, said = told(tmp_path, "queue one echo ran\nfinish\nsummary\n", KQUEUE_CI_BEGIN_SECONDS="0")
    assert status == 0
    assert "=== one: skipped, because 0 seconds were over before it could begin" in said
    assert said.endswith("ci: 0 passed, 0 failed, 1 skipped; skipped: one\n")


def test_failed_part_is_named_and_fails_the_run(tmp_path: Path) -> None:
    parts = """
        run first true
        queue good true
        queue bad bash -c 'echo why; exit 3'
        queue_unless "there is none" third true
        finish
        summary
    """
    status, said = told(tmp_path, parts)
    assert status == 1
    assert "=== bad:\nwhy\n=== bad: FAILED after " in said
    assert "=== third: skipped, because there is none\n" in said
    assert said.endswith("ci: 2 passed, 1 failed, 1 skipped; failed: bad; skipped: third\n")


def test_tests_that_passed_at_the_second_try_are_named_at_the_end(tmp_path: Path) -> None:
    parts = """
        run first printf 'RERUN test_a.py::test_one\\nRERUN test_a.py::test_one\\n1 passed, 2 rerun\\n'
        queue second printf '\\033[33mRERUN\\033[0m test_b.py::test_two\\n'
        finish
        summary
    """
    status, said = told(tmp_path, parts)
    assert status == 0
    named = "=== failed once, and were run again; each is to be mended:\ntest_a.py::test_one\ntest_b.py::test_two\n"
    assert said.endswith(f"{named}\nci: 2 passed, 0 failed, 0 skipped\n")


def test_failed_parts_run_once_more_alone_and_only_their_failed_tests(tmp_path: Path) -> None:
    parts = """
        queue 'bad at once' bash -c 'echo options: $KQUEUE_PYTEST_OPTIONS; [[ -e seen ]] || { touch seen; exit 1; }'
        queue bad bash -c 'exit 3'
        queue good true
        finish
        again
        summary
    """
    status, said = told(tmp_path, parts, KQUEUE_PYTEST_OPTIONS="--reruns 1")
    assert status == 1
    assert "options: --reruns 1\n=== bad at once: FAILED" in said
    assert "options: --reruns 1 --last-failed\n=== bad at once: passed" in said
    assert said.count("=== bad: FAILED") == 2
    assert "=== failed beside other parts, and passed when run again alone: bad at once\n" in said
    assert said.endswith("ci: 2 passed, 1 failed, 0 skipped; failed: bad\n")


def test_failed_parts_stay_failed_where_no_time_is_left_to_run_them_again(tmp_path: Path) -> None:
    parts = "queue bad bash -c 'touch seen-$RANDOM; exit 3'\nfinish\nagain\nsummary\n"
    status, said = told(tmp_path, parts, KQUEUE_CI_AGAIN_SECONDS="0")
    assert status == 1
    assert len(list(tmp_path.glob("seen-*"))) == 1
    assert said.endswith("ci: 0 passed, 1 failed, 0 skipped; failed: bad\n")


@pytest.mark.parametrize("how", ["run", "queue"])
def test_a_part_that_does_not_end_is_ended_and_told(tmp_path: Path, how: str) -> None:
    parts = f"{how} stuck bash -c 'echo begun; exec sleep 600'\nfinish\nqueue next true\nfinish\nsummary"
    status, said = told(tmp_path, parts, KQUEUE_CI_PART_SECONDS="0.3")
    assert status == 1
    assert "begun\n=== ended, because its 0.3 seconds were over\n=== stuck: FAILED" in said
    assert "ci: 1 passed, 1 failed, 0 skipped; failed: stuck\n" in said


def test_interrupted_run_ends_its_parts_and_prints_their_output(tmp_path: Path) -> None:
    parts = "queue stuck bash -c 'echo begun; echo $$ > pid; exec sleep 600'\nfinish\nsummary"
    with start(tmp_path, parts) as process:
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the part begins")
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "=== stuck, cut short:\nbegun\n" in said
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not psutil.pid_exists(pid), "the part ends")
