"""No error sentence repeats a name twice in a row, or wraps itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kqueue.tests.cli.test_serve import ANY_PORT, refused_here
from kqueue.tests.tables import for_each

Kq = Callable[..., Result]
TWICE = re.compile(r"(?<![\w/.])([\w./-]{4,}(?::\d+)?)(?:'?: \(?| \()'?\1(?![\w/-])|\bError: Error\b|\.\.(?:\s|$)")
"""``name: name``, ``name (name``: what is wrapped names it already."""


@for_each(
    "text, is_double",
    [
        ("meta.properties: meta.properties: expected", True),
        ("127.0.0.1:1 (127.0.0.1:1: refused)", True),
        ("orders: topic orders can't", False),
        ("/d: meta.properties: expected key=value, found 'x'", False),
        ("it is full.. Free some", True),
    ],
)
def test_detection_of_repeated_words(text: str, is_double: bool) -> None:
    assert bool(TWICE.search(text)) is is_double


@pytest.mark.parametrize("file", ["meta.properties", "kqueue.db", "a file in its place"])
def test_failed_starts(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    if file == "a file in its place":
        folder.touch()
    else:
        folder.mkdir(mode=0o700)
        (folder / file).write_text("x\n")
    _, stderr = refused_here("--set", ANY_PORT, "--set", f"log.dirs={folder}")
    assert "Error: " in stderr
    assert not TWICE.search(stderr), stderr


@pytest.mark.parametrize(
    "args",
    [
        ("topics", "create", "a b"),
        ("topics", "create", "{topic}"),
        ("topics", "create", "{topic}-x", "-c", "no.such=1"),
        ("topics", "create", "{topic}-x", "-c", "cleanup.policy=no"),
        ("topics", "delete", "no-such"),
        ("topics", "describe", "no-such"),
        ("topics", "alter", "no-such", "-p", "5"),
        ("topics", "alter", "{topic}", "-p", "1"),
        ("topics", "delete-records", "no-such", "--all"),
        ("topics", "delete-records", "{topic}", "--before-offset", "99"),
        ("groups", "describe", "no-such"),
        ("groups", "delete", "no-such"),
        ("groups", "delete-offsets", "no-such", "--topic", "{topic}"),
        ("log-dirs", "no-such"),
        ("consume", "no-such", "--timeout-ms", "1"),
        ("produce", "{topic}", "-p", "77"),
        ("topics", "list", "-b", "127.0.0.1:1"),
        ("produce", "x", "-b", "127.0.0.1:1", "--timeout", "0"),
        ("log", "verify", "no-such"),
        ("log", "dump", "no-such"),
        ("log", "export", "no-such", "--to", "x.jsonl"),
        ("log", "repair", "no-such", "--dry-run"),
    ],
)
def test_failed_commands(kq: Kq, topic: str, args: tuple[str, ...]) -> None:
    result = kq(*(arg.format(topic=topic) for arg in args), input="x\n")
    assert result.exit_code != 0
    assert "Error: " in result.stderr
    assert not TWICE.search(result.stderr), result.stderr
    assert max(line.count(topic) for line in result.stderr.splitlines()) <= 2
