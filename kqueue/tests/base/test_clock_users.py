"""Only `kqueue.base.clock` reads the machine's clock, so a test that freezes `time` and `datetime`
does not freeze a broker in its process.
"""

from __future__ import annotations

import ast
import re

from kqueue.tests.source_tree import shipped_files
from kqueue.tests.tables import for_each

CLOCK = "kqueue.base.clock"
READS_CLOCK = {
    *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("clock_gettime", "clock_gettime_ns", "localtime", "gmtime", "strftime", "ctime", "asctime"),
}
# With the time to convert as an argument these convert it, and read no clock.
CONVERTERS = {"localtime": 1, "gmtime": 1, "strftime": 2, "ctime": 1, "asctime": 1}
OF_DATETIME = {"now", "utcnow", "today"}
MENTIONS = re.compile(rf"\b(import time|{'|'.join(READS_CLOCK - {'time'})})\b|[.](time|{'|'.join(OF_DATETIME)})\b")
"""What a module has that reads a clock; the parser, which takes longer, reads no other module."""


def clock_reads(tree: ast.Module) -> list[str]:
    """Return `line: call` of each use of a function that reads the machine's clock."""
    converts = {
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and len(node.args) >= CONVERTERS.get(node.func.attr, 100)
    }
    reads = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            reads += [f"{node.lineno}: {one.name}" for one in node.names if one.name in READS_CLOCK]
        elif isinstance(node, ast.Import):
            reads += [
                f"{node.lineno}: {one.name} as {one.asname}" for one in node.names if one.name == "time" and one.asname
            ]
        elif isinstance(node, ast.Attribute) and node.attr in READS_CLOCK | OF_DATETIME and node not in converts:
            text = ast.unparse(node)
            of_time = isinstance(node.value, ast.Name) and node.value.id == "time" and node.attr in READS_CLOCK
            of_datetime = node.attr in OF_DATETIME and text.split(".")[-2] in ("datetime", "date", "dt")
            of_loop = node.attr == "time" and ("loop" in text.lower())
            if of_time or of_datetime or of_loop:
                reads.append(f"{node.lineno}: {text}")
    return reads


@for_each(
    "text",
    [
        "import time\ntime.time()",
        "import time\ndef f(now=time.monotonic): ...",
        "from time import monotonic",
        "import time as t",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import date\ndate.today()",
        "import asyncio\nasyncio.get_running_loop().time()",
        "self._loop.time()",
        "import time\ntime.strftime('%Y')",
    ],
)
def test_a_read_of_the_clock_is_found(text: str) -> None:
    assert len(clock_reads(ast.parse(text))) == 1
    assert MENTIONS.search(text)


@for_each("text", ["import time\ntime.sleep(1)", "import time\ntime.gmtime(0)", "time.strftime('%Y', at)"])
def test_code_without_clock_reads_is_not_reported(text: str) -> None:
    assert clock_reads(ast.parse(text)) == []


def test_no_module_but_the_clock_reads_the_machines_clock() -> None:
    read = {
        file.module: reads
        for file in shipped_files()
        if file.module != CLOCK and MENTIONS.search(file.text) and (reads := clock_reads(file.tree))
    }
    assert read == {}, "use kqueue.base.clock"
