from __future__ import annotations

import os
import pty
import sys
import termios
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.cli.top import keyboard as module
from kqueue.cli.top.keyboard import Keyboard, KeyDecoder, has_keyboard, keyboard
from kqueue.tests.tables import for_each


@for_each(
    "data, keys",
    [
        (b"q", ["q"]),
        (b"/ab \r", ["/", "a", "b", " ", "enter"]),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[Z", ["up", "down", "pageup", "pagedown", "shift-tab"]),
        (b"\x1b", ["escape"]),
        (b"\t\x7f\b\n", ["tab", "backspace", "backspace", "enter"]),
        (b"\x1b[1;5C\x1b[200~", []),
        ("é".encode(), ["é"]),
        (b"\x00\x01\xff", []),
    ],
)
def test_keys_have_names(data: bytes, keys: list[str]) -> None:
    assert KeyDecoder().feed(data) == keys


def test_a_character_may_come_in_parts() -> None:
    decoder = KeyDecoder()
    first, second = "é".encode()[:1], "é".encode()[1:]
    assert (decoder.feed(first), decoder.feed(second)) == ([], ["é"])


@given(st.binary(max_size=30))
def test_any_bytes_are_keys_that_can_be_shown(data: bytes) -> None:
    for key in KeyDecoder().feed(data):
        assert key
        assert key.isprintable()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Have a terminal as standard input; yield the descriptors of its other side and of itself."""
    other, terminal = pty.openpty()
    with open(terminal) as stdin, open(other, "wb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield screen.fileno(), terminal


def test_a_terminal_gives_single_keys_and_is_restored(terminal: tuple[int, int]) -> None:
    other, fd = terminal
    before = termios.tcgetattr(fd)
    with keyboard() as keys:
        assert not termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO)
        assert keys.read(0) == []
        os.write(other, b"r")
        assert (keys.read(10), keys.has_ended) == (["r"], False)
    assert termios.tcgetattr(fd) == before


def test_a_terminal_that_is_gone_ends_the_keys() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    keys = Keyboard(reader)
    assert (keys.read(10), keys.has_ended) == ([], True)
    os.close(reader)


def test_there_are_keys_only_between_terminals(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_keyboard(), "the output is captured"
    monkeypatch.setattr(sys, "stdout", sys.stdin)
    assert has_keyboard()
    monkeypatch.setattr(module, "termios", None)
    assert not has_keyboard()
