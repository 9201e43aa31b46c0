"""Damage in a file: its position, what was expected and what was found."""

from __future__ import annotations

import logging
from typing import NamedTuple

from kqueue.base import events

LOGGED_MAX = 10
KEPT_MAX = 1000
logger = logging.getLogger("kqueue.log")


class Damage(NamedTuple):
    """Damage at one position of a file, in bytes; None: of the file as a whole.

    `str` gives one sentence for people.
    """

    file: str
    position: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        position = "" if self.position is None else f" at position {self.position}"
        return f"{self.file}{position}: expected {self.expected}, found {self.found}"


def report_damage(damages: list[Damage], kept: list[Damage | str], location: str, folder: str) -> None:
    """Log at most `LOGGED_MAX` damages of the log in `folder`, and append them to `kept`."""
    for damage in damages[:LOGGED_MAX]:
        events.LOG_DAMAGED.log(
            logger, "%s: %s; these bytes are not served, the rest is", location=location, damage=damage
        )
    if len(damages) > LOGGED_MAX:
        events.LOG_DAMAGED.log(
            logger,
            "%s: %s is damaged at %d more positions",
            location=location,
            folder=folder,
            positions=len(damages) - LOGGED_MAX,
        )
    kept += damages[: max(KEPT_MAX - len(kept), 0)]
