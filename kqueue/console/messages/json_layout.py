"""JSON text laid out in lines, every token as it was: large numbers, escapes, repeated names.

Parsing and writing again would round numbers and drop all but the last of equal names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_INDENT = "  "
_OPENING, _CLOSING = "{[", "}]"


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; numbers too long for Python are their texts.

    Raises: ValueError: it is no JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_int=_integer, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def laid_out(text: str, characters_max: int) -> str:
    """Return a valid JSON text with a line for each member, cut after about `characters_max`."""
    parts: list[str] = []
    size = 0
    for part in _parts(text):
        parts.append(part)
        size += len(part)
        if size > characters_max:
            break
    return "".join(parts)


def on_one_line(text: str) -> str:
    """Return a valid JSON text without line ends or other space between its tokens."""
    spaced = {",": ", ", ":": ": "}
    return "".join(spaced.get(match[0], match[0]) for match in _TOKEN.finditer(text))


def _parts(text: str) -> Iterator[str]:
    depth = 0
    before = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _CLOSING:
            depth -= 1
            if before not in _OPENING or not before:
                yield _line(depth)
        elif before and before in _OPENING:
            yield _line(depth)
        yield token
        if token in _OPENING:
            depth += 1
        elif token == ",":
            yield _line(depth)
        elif token == ":":
            yield " "
        before = token


def _line(depth: int) -> str:
    return "\n" + _INDENT * depth


def _integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # Python converts 4,300 digits at most
        return text


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
