"""Keys of a terminal, one by one and without an echo."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import sys
from collections.abc import Iterator

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

READ_BYTES = 1024
NAMES = {"\t": "tab", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape"}
SEQUENCES = {
    "A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "Z": "shift-tab",
    "1~": "home", "4~": "end", "5~": "pageup", "6~": "pagedown", "7~": "home", "8~": "end",
}  # fmt: skip
_KEY = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|\x1b\[[0-9;]*|(.)", re.DOTALL)
_LFLAG, _CC = 3, 6  # indexes into what tcgetattr returns


class KeyDecoder:
    """Turns what a terminal sends into names of keys: a character, or a word such as ``pageup``."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def feed(self, data: bytes) -> list[str]:
        """Return the keys in what one read returned; sequences that are not known are left out."""
        keys = []
        for match in _KEY.finditer(self._decoder.decode(data)):
            sequence, char = match.groups()
            if sequence is not None:
                keys.append(SEQUENCES.get(sequence, ""))
            elif char is not None:
                keys.append(NAMES.get(char, char if char.isprintable() else ""))
        return [key for key in keys if key]


class Keyboard:
    """The terminal of standard input while it gives each key at once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._decoder = KeyDecoder()
        self.has_ended = False

    def read(self, wait_s: float) -> list[str]:
        """Return the keys that were pressed; waits for the first one for `wait_s` seconds.

        Once the terminal is gone, `has_ended` is True.
        """
        if not select.select([self._fd], [], [], wait_s)[0]:
            return []
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:  # a terminal that hangs up
            data = b""
        self.has_ended = not data
        return self._decoder.feed(data)


def has_keyboard() -> bool:
    """Return whether standard input is a terminal that gives single keys, and output shows them."""
    return termios is not None and sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Have the terminal give each key at once and echo none; restore it at the end.

    Ctrl-C stays a signal. Ctrl-Z does nothing: it would leave the shell in a screen of this one.
    """
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    attributes = termios.tcgetattr(fd)
    attributes[_LFLAG] &= ~(termios.ICANON | termios.ECHO)
    attributes[_CC][termios.VMIN], attributes[_CC][termios.VTIME] = 1, 0
    attributes[_CC][termios.VSUSP] = b"\0"
    termios.tcsetattr(fd, termios.TCSAFLUSH, attributes)
    try:
        yield Keyboard(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
