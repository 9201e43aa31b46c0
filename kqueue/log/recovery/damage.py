"""What was found wrong in a file: where, what should stand there, and what does."""

from __future__ import annotations

from typing import NamedTuple


class Damage(NamedTuple):
    """One place of one file. `position` in bytes; None: the file as a whole. `str` is one sentence, for people."""

    file: str
    position: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        place = "" if self.position is None else f" at position {self.position}"
        return f"{self.file}{place}: expected {self.expected}, found {self.found}"
