"""Standard output and standard error of a command, safe for a terminal.

Keys, values, names and errors come from others. Written to a terminal as they are, their control
characters move the cursor, rename the window or hide text. On a terminal they are escaped; a pipe
or a file gets the bytes as they are. What a program itself controls a terminal with, such as a
progress bar, is written to the `trusted` stream.
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import Any, BinaryIO, TextIO, cast

# C0 but for tab and newline, DEL and C1; separators of lines and paragraphs; marks, embeddings,
# overrides and isolates of direction; surrogates, which stand for invalid bytes
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""Return text with control characters as ``\r``, ``\x1b`` or ``\u202e``."""
    return _UNSAFE.sub(lambda match: _escape(match[0]), text)


def one_line(text: str) -> str:
    """Return `escaped` text without tabs and line ends: a cell of a table, or a line of a log, in
    which a name must not begin another one.
    """
    return escaped(text).replace("\t", "\\t").replace("\n", "\\n")


def _escape(char: str) -> str:
    number = ord(char)
    return repr(char)[1:-1] if number < 0x20 else f"\\u{number:04x}"  # JSON has no \x


class EscapingStream:
    """A text stream that escapes what is written to it; all else is that of `trusted`."""

    def __init__(self, trusted: TextIO) -> None:
        self.trusted = trusted
        self.buffer = cast(BinaryIO, EscapingBuffer(trusted))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trusted, name)

    def write(self, text: str) -> int:
        """Write text, escaped; return the size of what was given."""
        self.trusted.write(escaped(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)


class EscapingBuffer:
    """The binary stream below an `EscapingStream`: UTF-8, with other bytes as ``\\xff``."""

    def __init__(self, trusted: TextIO) -> None:
        self._trusted = trusted
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trusted.buffer, name)

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write bytes as escaped text; return how many were given."""
        self._put(self._decoder.decode(bytes(data)))
        return len(data)

    def writelines(self, lines: Any) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write all, a character that is not complete too."""
        self._put(self._decoder.decode(b"", True))
        self._trusted.buffer.flush()

    def _put(self, text: str) -> None:
        if text:
            self._trusted.flush()
            self._trusted.buffer.write(escaped(text).encode(self._trusted.encoding, "backslashreplace"))


def escape_terminal_output() -> None:
    """Escape what this process writes to standard output and standard error, where they are a
    terminal. Only for processes that are a command's own.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, EscapingStream) and stream.isatty():
            setattr(sys, name, EscapingStream(stream))


def trusted(stream: TextIO) -> TextIO:
    """Return the stream that escapes nothing, for a program's own control sequences."""
    return stream.trusted if isinstance(stream, EscapingStream) else stream
