from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.terminal import EscapingStream, escape_terminal_output, escaped, trusted

HOSTILE = "a\x1b]0;title\x07b\rc\x9b2Jd\u202ee\x7f"
SHOWN = r"a\x1b]0;title\x07b\rc\u009b2Jd\u202ee\u007f"


def stream() -> tuple[EscapingStream, io.BytesIO]:
    raw = io.BytesIO()
    return EscapingStream(io.TextIOWrapper(raw, "utf-8", write_through=True)), raw


def test_control_characters_are_escaped() -> None:
    assert escaped(HOSTILE) == SHOWN
    assert escaped("tab\tand newline\n, grüße, \U0001f468\u200d\U0001f469") == (
        "tab\tand newline\n, grüße, \U0001f468\u200d\U0001f469"
    )
    assert escaped("\udcff\u2028\u2066\u061c") == r"\udcff\u2028\u2066\u061c"


@given(st.text())
def test_escaped_text_stays_as_it_is(text: str) -> None:
    assert escaped(escaped(text)) == escaped(text)


def test_json_stays_json() -> None:
    assert json.loads(escaped(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


def test_text_and_bytes_are_escaped() -> None:
    escaping, raw = stream()
    assert escaping.write(HOSTILE) == len(HOSTILE)
    escaping.writelines(["\x1b", "\n"])
    assert raw.getvalue().decode() == SHOWN + "\\x1b\n"
    escaping, raw = stream()
    for byte in HOSTILE.encode() + b"\xff\xc3":
        escaping.buffer.write(bytes([byte]))
    escaping.buffer.flush()
    assert raw.getvalue().decode() == SHOWN + r"\xff\xc3"


def test_a_programs_own_sequences_are_not_escaped() -> None:
    escaping, raw = stream()
    trusted(escaping).write("\r\x1b[K")  # type: ignore[arg-type]
    assert raw.getvalue() == b"\r\x1b[K"


def test_a_pipe_gets_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", plain)
    monkeypatch.setattr(sys, "stderr", plain)
    escape_terminal_output()
    assert sys.stdout is plain
    assert sys.stderr is plain


def test_a_command_escapes_on_a_terminal() -> None:
    """An error text, a table and bytes of a command on a pseudo terminal."""
    program = f"""
import logging, sys
from kqueue.base.terminal import escape_terminal_output
from kqueue.cli.output import table_console
from kqueue.supervisor.logs import log_to_stderr
from rich.table import Table
escape_terminal_output()
log_to_stderr(verbose=False).use(None)
hostile = {HOSTILE!r}
sys.stdout.buffer.write(hostile.encode() + b"\\xff\\n")
sys.stdout.buffer.flush()
print(hostile)
logging.getLogger("kqueue.server").warning("of %s", hostile)
table = Table("Name")
table.add_row(hostile)
table_console().print(table)
"""
    output = on_terminal(program)
    assert output.count(SHOWN.encode()) == 4
    assert SHOWN.encode() + rb"\xff" in output
    for one in (b"\x1b]", b"\x07", b"\r" + b"c", "\x9b".encode(), "\u202e".encode(), b"\x7f"):
        assert one not in output


def on_terminal(program: str) -> bytes:
    """Return what a Python program writes to a terminal."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=writer, stderr=writer, env=environment) as process:
        os.close(writer)
        output = b""
        while True:
            try:
                data = os.read(reader, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not data:
                break
            output += data
        os.close(reader)
    assert process.returncode == 0, output
    return output
