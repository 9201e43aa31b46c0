"""Every example runs, exits with status 0, and prints the expected lines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROMISES = {
    "quickstart.py": [r"a broker listens on 127\.0\.0\.1:\d+", *(rf"offset {n}: hello {n + 1}" for n in range(5))],
    "acknowledged_queue.py": [
        r"worker 1 dies while it has job \d+",
        r"worker 2 did \d+ jobs",
        "40 of 40 jobs are done, 0 of them more than once",
    ],
    "seeded_tests.py": [
        *(
            rf"as Kafka {version}: <group billing: .*; orders-0 at 3 \(lag 0\)>"
            for version in (r"2\.8", r"3\.9", r"4\.3")
        ),
        "one more order, and nobody there: group billing has consumed 3 of 4 records of orders: partition 0 at 3 of 4",
    ],
    "log_collection.py": [
        r"the agent was killed after the consumer had seen 1000 lines",
        "meanwhile the log was rotated and has grown",
        r"6000 of 6000 lines arrived, 0 of them twice; errors: web \d+, billing \d+, mail \d+",
    ],
    "flash_sale.py": [
        r"1000 customers came: [1-9]\d\d orders were accepted, [1-9]\d* refused at once",
        r"the queue never held more than 100 orders; the shop handled [1-9]\d\d of them",
    ],
}


def run(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=100, check=False)


def test_every_example_has_expected_lines() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_example(name: str) -> None:
    result = run(name)
    assert result.returncode == 0, result.stdout + result.stderr
    for promise in PROMISES[name]:
        assert re.search(promise, result.stdout), f"{promise!r} is not in:\n{result.stdout}"
