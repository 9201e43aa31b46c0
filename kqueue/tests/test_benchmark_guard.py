"""Tests of `benchmarks.guard`: its figures do not vary, and it fails when a request costs more."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from benchmarks import guard_loads
from benchmarks.counts import LEFT, PYTHON_CALLS
from benchmarks.guard import FILE, excesses, why_skipped
from kqueue.tests.source_tree import ROOT

ONE_AT_A_TIME = "flush=kafka: Produce, one at a time"
PROGRAM = """
import json, sys
from benchmarks import guard
guard.stop_clocks()
from benchmarks.guard_loads import LOADS
from kqueue.network.dispatch import Dispatcher

def unchanged(frame):
    return frame

def begin(dispatcher, frame, connection, start=Dispatcher.start):
    for _ in range(ADDED - 1):
        frame = unchanged(frame)
    return start(dispatcher, frame, connection)

ADDED = int(sys.argv[2])  # `begin` is a call itself
if ADDED:
    Dispatcher.start = begin
json.dump({load.title: load.measure() for load in LOADS if load.title == sys.argv[1]}, sys.stdout)
"""


def measured(title: str, added_calls: int) -> Any:
    """Return the figures of a load, with so many calls added to each request."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, title, str(added_calls)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.skipif(bool(why_skipped(json.loads(FILE.read_text()))), reason="it counts for CPython on Linux")
def test_a_call_that_is_added_to_each_request_is_counted_and_ten_of_them_are_refused() -> None:
    before, one_more, ten_more = (measured(ONE_AT_A_TIME, added) for added in (0, 1, 10))
    calls = before[ONE_AT_A_TIME][PYTHON_CALLS]
    assert one_more[ONE_AT_A_TIME][PYTHON_CALLS] == calls + 1
    assert ten_more[ONE_AT_A_TIME][PYTHON_CALLS] == calls + 10
    assert not list(excesses(one_more, before))
    assert any(PYTHON_CALLS in sentence for sentence in excesses(ten_more, before))


def test_figure_within_a_tenth_of_the_kept_one_passes() -> None:
    kept = {"a load": {PYTHON_CALLS: 100, "pwrite": 1.0, LEFT: 0}}
    assert not list(excesses({"a load": {PYTHON_CALLS: 110, "pwrite": 1.1, LEFT: 0.4}}, kept))
    assert not list(excesses({"a load": {PYTHON_CALLS: 10}}, kept))


@pytest.mark.parametrize("name", [PYTHON_CALLS, "pwrite", LEFT])
def test_figure_beyond_a_tenth_is_named_with_the_kept_one(name: str) -> None:
    kept = {"a load": {PYTHON_CALLS: 100, "pwrite": 1.0, LEFT: 0}}
    more = kept["a load"][name] * 1.11 + 1
    assert list(excesses({"a load": {name: more}}, kept)) == [
        f"a load: {name}: {more:g}, kept {kept['a load'][name]:g}"
    ]


def test_system_call_of_a_new_kind_and_load_without_figures_are_named() -> None:
    kept = {"a load": {PYTHON_CALLS: 100}}
    assert list(excesses({"a load": {"fsync": 0.1}}, kept)) == ["a load: fsync: 0.1, kept 0"]
    assert list(excesses({"another": {PYTHON_CALLS: 1}}, kept)) == ["another: no figures are kept"]


def test_figures_of_this_version_of_python_are_missing_says_why_nothing_is_compared() -> None:
    assert "are kept" in why_skipped({"figures": {}}) or "CPython on Linux" in why_skipped({"figures": {}})


def test_fetches_are_left_out_where_reads_that_must_not_wait_do_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*args: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "no such flag")

    guard_loads.tells_cached_pages.cache_clear()
    monkeypatch.setattr(os, "preadv", unsupported)
    reasons = {load.name: load.why_skipped() for load in guard_loads.LOADS}
    guard_loads.tells_cached_pages.cache_clear()
    assert {name for name, reason in reasons.items() if "page cache" in reason} == {
        "Fetch",
        "Fetch of 1 MB",
        "Fetch that waits, and its Produce",
        "the same, in a session of 100 partitions",
    }
    assert {reasons["Produce of 1 MB"], reasons["Produce, one at a time"]} == {""}


def test_kept_figures_have_reasons() -> None:
    kept = json.loads(FILE.read_text())
    assert kept["reasons"]
    assert all(kept["figures"].values())
