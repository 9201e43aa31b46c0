"""What was found wrong in a file: where, what should stand there, and what does."""

from __future__ import annotations

import logging
from typing import NamedTuple

TOLD_MAX = 10
KEPT_MAX = 1000
logger = logging.getLogger("kqueue.log")


class Damage(NamedTuple):
    """One place of one file. `position` in bytes; None: the file as a whole. `str` is one sentence,
    for people.
    """

    file: str
    position: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        place = "" if self.position is None else f" at position {self.position}"
        return f"{self.file}{place}: expected {self.expected}, found {self.found}"


def report_damage(damages: list[Damage], kept: list[Damage | str], place: str, folder: str) -> None:
    """Tell what was found in the log of `folder` and add it to `kept`: of a multitude the first few
    alone, and their number.
    """
    for damage in damages[:TOLD_MAX]:
        logger.error("%s: %s; what stands there is not served, the rest is", place, damage)
    if len(damages) > TOLD_MAX:
        logger.error("%s: %s is damaged in %d more places", place, folder, len(damages) - TOLD_MAX)
    kept += damages[: max(KEPT_MAX - len(kept), 0)]
