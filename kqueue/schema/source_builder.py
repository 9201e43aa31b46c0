"""Builds Python source: indented lines, unique local names, and constants."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SourceBuilder:
    """Source of one function, and its globals."""

    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = dict(names)
        self._lines: list[str] = []
        self._depth = 0
        self._count = itertools.count(1)
        self._constants: dict[int, str] = {}

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add `head:` and indent the lines that are added within the `with` block."""
        self.line(head + ":")
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return an unused local name."""
        return f"{stem}{next(self._count)}"

    def constant(self, value: Any, stem: str = "K") -> str:
        """Return an expression for `value`: a literal, or the name of a global."""
        if value is None or isinstance(value, (bool, int, str)) or value == b"":
            return repr(value)
        if id(value) not in self._constants:
            self._constants[id(value)] = name = f"{stem}{len(self._constants)}"
            self.names[name] = value
        return self._constants[id(value)]

    def packer(self, codes: str) -> str:
        """Return the name of `pack` for this big-endian format."""
        return self._bound("pack_", codes, "pack")

    def unpacker(self, codes: str) -> str:
        """Return the name of `unpack_from` for this big-endian format."""
        return self._bound("unpack_", codes, "unpack_from")

    def _bound(self, stem: str, codes: str, method: str) -> str:
        name = stem + codes.replace("?", "t")
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def text(self) -> str:
        """Return the source."""
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """Execute the source and return this function; tracebacks show `title` as its file."""
        exec(compile(self.text(), f"<{title}>", "exec"), self.names)
        compiled: Callable[..., Any] = self.names[function]
        return compiled
