"""Default tests read no clock of the machine, but for the limits of `kqueue.tests.waits`.

A busy machine makes any time longer, so a test that compares times fails there. It counts instead:
calls, bytes, steps, at one size and at twice the size; or it runs on a manual clock. Promises about
speed are measured in `benchmarks/`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kqueue.tests.source_tree import source_files
from kqueue.tests.tables import for_each

ELAPSED = re.compile(r"(monotonic|perf_counter|process_time|thread_time)(_ns|_s)?")
DATES = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today", "wall_ms", "utc_now"}
OF_PROCESSES = {"ru_utime", "ru_stime"}
MENTIONS = re.compile(rf"{ELAPSED.pattern}|{'|'.join(OF_PROCESSES)}|timeit|import time as|[.]time[(]|{'|'.join(DATES)}")

EXCEPTIONS = {
    "kqueue/tests/waits.py": "the limits of all waits",
    "kqueue/tests/base/test_clock.py": "what it tests is the machine's clock",
    "kqueue/tests/network/test_event_loop.py": "what it tests is the clock of an event loop",
    "kqueue/tests/embedded/test_client_quotas.py": "measures rates over seconds, of clients that keep to their quotas",
    "kqueue/tests/embedded/test_clock.py": "a broker's time begins as the machine's, to some minutes",
    "kqueue/tests/embedded/test_frozen_time.py": "compares years and days, of tests that travel in time",
    "kqueue/tests/metadata/test_postgres_client.py": "makes deadlines, which the client takes as arguments",
    "kqueue/tests/metadata/test_zookeeper_client.py": "makes deadlines, which the client takes as arguments",
    "kqueue/tests/security/test_certificates.py": "compares dates in days",
    "kqueue/tests/simulation/replication_model.py": "shows the progress of a program that is run by hand",
    "kqueue/tests/spark/source/test_micro_batch_planner.py": "names the clock that the planner has by default",
    "kqueue/tests/testing/test_assignor_checks.py": "an assignor that is slow on purpose; the checker measures it",
    "kqueue/tests/testing/test_authorizer_checks.py": "an authorizer that is slow on purpose; the checker measures it",
}
"""The files that may, and why."""


def readings(tree: ast.Module) -> Iterator[str]:
    """Yield `line: reading` of each clock of elapsed time, and of each date that is compared."""
    nodes = list(ast.walk(tree))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "timeit", "kqueue.base.clock"):
            for alias in node.names:
                if node.module == "timeit" or ELAPSED.fullmatch(alias.name):
                    yield f"{node.lineno}: from {node.module} import {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "timeit" or (alias.name == "time" and alias.asname):
                    yield f"{node.lineno}: import {alias.name}"
        elif isinstance(node, ast.Attribute):
            if is_elapsed(node, imported):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Compare):
            for part in ast.walk(node):
                if isinstance(part, ast.Call) and ".".join(ast.unparse(part.func).split(".")[-2:]) in DATES:
                    yield f"{node.lineno}: {ast.unparse(part)}"


def is_elapsed(node: ast.Attribute, imported: set[str]) -> bool:
    if node.attr in OF_PROCESSES:
        return True
    if node.attr == "time":  # of an event loop
        return "loop" in ast.unparse(node.value)
    return ast.unparse(node.value) == "time" and "time" in imported and bool(ELAPSED.fullmatch(node.attr))


@for_each(
    "text",
    [
        "import time\nbegan = time.monotonic()",
        "import time\nassert f(time.perf_counter_ns)",
        "import time as t",
        "from time import process_time",
        "from kqueue.base.clock import monotonic_s",
        "import timeit",
        "began = asyncio.get_running_loop().time()",
        "used = process.ru_utime",
        "import time\nassert time.time() - began < 5",
        "import datetime\nassert datetime.datetime.now(UTC) < end",
        "while wall_ms() < end_ms: pass",
    ],
)
def test_a_reading_is_found(text: str) -> None:
    assert len(list(readings(ast.parse(text)))) == 1
    assert MENTIONS.search(text)


@for_each(
    "text",
    [
        "import time\nrecord(timestamp_ms=int(time.time() * 1000))",
        "import time\ntime.sleep(0)",
        "assert clock.monotonic_ms() == 5",
        "assert broker.clock.now() > before",
        "from kqueue.base.clock import SystemClock",
        "time = Time()\nThrottle(1000, time.sleep, time.monotonic)",
    ],
)
def test_code_without_clock_reads_is_not_reported(text: str) -> None:
    assert list(readings(ast.parse(text))) == []


def test_default_tests_compare_no_times_of_the_machine() -> None:
    comparisons = {
        str(file.path): lines
        for file in source_files("kqueue/tests")
        if MENTIONS.search(file.text) and (lines := list(readings(file.tree)))
    }
    assert {path: lines for path, lines in comparisons.items() if path not in EXCEPTIONS} == {}
    assert EXCEPTIONS.keys() - comparisons.keys() == set(), "these read no clock: remove them"
