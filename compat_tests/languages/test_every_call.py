"""Clients of other languages: every call that needs no second broker and no security gives on
kqueue what it gives on Kafka.

A program is a real client at work. It prints a line of JSON per call: its name, its result. The
file `expected.jsonl` beside it has the lines that it prints on Kafka 4.3. Its lines `uncalled` name
the methods of a class that it neither calls nor leaves out, its lines `left out` the reasons; Rust
has no reflection.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable
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
CLIENTS = {
    "franz": ("franz-go", "Go", "go/go.mod", r"franz-go v(\S+)"),
    "sarama": ("sarama", "Go", "go/go.mod", r"sarama v(\S+)"),
    "kafkajs": ("KafkaJS", "JavaScript", "js/package.json", r'"kafkajs": "([\d.]+)"'),
    "rskafka": ("rskafka", "Rust", "rust/Cargo.toml", r'rskafka = .*"=([\d.]+)"'),
}
"""Name and language of a client, and the file that pins its version."""
UNCALLED, LEFT_OUT = ".uncalled", ".left out"


def results(lines: Iterable[str]) -> dict[str, Any]:
    """Return the result of each call by its name."""
    parsed = [json.loads(line) for line in lines]
    by_call = {one["call"]: one["result"] for one in parsed}
    assert len(by_call) == len(parsed), "a call is printed twice"
    return by_call


def expected(name: str) -> dict[str, Any]:
    return results((EXPECTED[name] / "expected.jsonl").read_text().splitlines())


def calls(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results without the lines about what is not called."""
    return {call: result for call, result in results.items() if not call.endswith((UNCALLED, LEFT_OUT))}


def version(name: str) -> str:
    _, _, file, pattern = CLIENTS[name]
    match = re.search(pattern, (HERE / file).read_text())
    assert match, f"{file} has no version of {name}"
    return match[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call(name: str, programs: Programs, bootstrap: str, count_calls: Callable[..., None]) -> None:
    command = programs.command(name)
    if isinstance(command, str):
        pytest.skip(f"skipped, because {command}")
    done = subprocess.run([*command, bootstrap], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    by_call = results(done.stdout.splitlines())
    client, language, *_ = CLIENTS[name]
    count_calls(f"{client} {version(name)}", language, calls(by_call), calls(expected(name)))
    assert by_call == expected(name), done.stderr


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - WITHOUT_REFLECTION))
def test_every_method_is_called_or_left_out(name: str) -> None:
    uncalled = {call: methods for call, methods in expected(name).items() if call.endswith(UNCALLED)}
    assert len(uncalled) >= 3
    assert not any(uncalled.values()), uncalled
