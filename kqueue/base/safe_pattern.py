"""Regular expressions from clients, limited to those that match in bounded time.

Python's `re` tries the alternatives of a pattern one after another, and nested repetitions such as
``(a+)+$`` take exponential time. So a pattern may have few places with a choice (``*``, ``+``,
``?``, ``{m,n}``, ``|``), and none within a group that is repeated. A subject of n characters then
takes at most about n to the power of `CHOICES_MAX` steps.
"""

from __future__ import annotations

import re
import warnings

CHOICES_MAX = 3
PATTERN_LENGTH_MAX = 1000
SUBJECT_LENGTH_MAX = 64
"""Subjects are cut to so many characters."""


def compile_safe(pattern: str) -> re.Pattern[str]:
    """Compile `pattern`. Raises ValueError: it is invalid, too long, or could take too long."""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_LENGTH_MAX} characters, found {len(pattern)}")
    _check_choices(pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of sets that a later Python may read otherwise
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None


def matches(pattern: re.Pattern[str], subject: str) -> bool:
    """Return whether the whole of `subject`, cut to `SUBJECT_LENGTH_MAX`, matches."""
    return pattern.fullmatch(subject[:SUBJECT_LENGTH_MAX]) is not None


def _check_choices(pattern: str) -> None:
    choices = 0
    groups: list[int] = []  # choices before each open group
    closed = -1  # choices before the group that ended just now
    position = 0
    while position < len(pattern):
        character = pattern[position]
        position += 1
        if character in "*+?{|":
            if closed >= 0 and character != "|" and choices > closed:
                raise ValueError(f"{pattern!r} repeats a group that has a choice within: that may take too long")
            choices += 1
            closed = -1
            if pattern[position : position + 1] in ("?", "+") and character in "*+?":
                position += 1  # lazy or possessive: the same choice
            continue
        closed = -1
        if character == "\\":
            if pattern[position : position + 1].isdigit():
                raise ValueError(f"{pattern!r} refers to a group: that is not allowed")
            position += 1
        elif character == "[":
            position = _end_of_set(pattern, position)
        elif character == "(":
            if pattern[position : position + 1] == "?":
                if pattern[position : position + 2] != "?:":
                    raise ValueError(f"{pattern!r} has a group of the kind (?...: only (?: is allowed")
                position += 2
            groups.append(choices)
        elif character == ")" and groups:
            closed = groups.pop()
    if choices > CHOICES_MAX:
        raise ValueError(f"{pattern!r} has {choices} choices (* + ? {{ |), at most {CHOICES_MAX} are allowed")


def _end_of_set(pattern: str, position: int) -> int:
    """Return the position after the ``]`` of a set whose ``[`` ends at `position`."""
    if pattern[position : position + 1] == "^":
        position += 1
    first = True
    while position < len(pattern) and (first or pattern[position] != "]"):
        position += 2 if pattern[position] == "\\" else 1
        first = False
    return position + 1
