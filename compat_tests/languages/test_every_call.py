"""Clients of other languages: every call that needs no second broker and no security gives on
kqueue what it gives on Kafka.

A program is a real client at work. It prints a line of JSON per call: its name, its result. The
file `expected.jsonl` beside it has the lines that it prints on Kafka 4.3. Its lines `uncalled` name
the methods of a class that it neither calls nor leaves out, its lines `left out` the reasons; Rust
has no reflection.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

from compat_tests.languages.toolchains import HERE, PROGRAMS, Programs

RUN_TIMEOUT_S = 120
EXPECTED = {
    "franz": HERE / "go" / "franz",
    "sarama": HERE / "go" / "sarama",
    "kafkajs": HERE / "js",
    "rskafka": HERE / "rust",
}
WITHOUT_REFLECTION = {"rskafka"}
UNCALLED = ".uncalled"


def results(lines: Iterable[str]) -> dict[str, Any]:
    """Return the result of each call by its name."""
    parsed = [json.loads(line) for line in lines]
    found = {one["call"]: one["result"] for one in parsed}
    assert len(found) == len(parsed), "a call is printed twice"
    return found


def expected(name: str) -> dict[str, Any]:
    return results((EXPECTED[name] / "expected.jsonl").read_text().splitlines())


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call(name: str, programs: Programs, bootstrap: str) -> None:
    command = programs.command(name)
    if isinstance(command, str):
        pytest.skip(f"skipped, because {command}")
    done = subprocess.run([*command, bootstrap], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert results(done.stdout.splitlines()) == expected(name), done.stderr


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - WITHOUT_REFLECTION))
def test_every_method_is_called_or_left_out(name: str) -> None:
    uncalled = {call: methods for call, methods in expected(name).items() if call.endswith(UNCALLED)}
    assert len(uncalled) >= 3
    assert not any(uncalled.values()), uncalled
