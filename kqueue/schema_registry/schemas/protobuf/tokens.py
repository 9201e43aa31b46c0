"""The tokens of a .proto file, without comments; texts with their escapes resolved, and back.

Source: the Protocol Buffers language specification, "Lexical elements".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from kqueue.base.text import short_repr
from kqueue.schema_registry.schemas.contract import InvalidSchema

WHAT = "The Protobuf schema"
NUMBER_CHARACTERS_MAX = 100
_TOKEN = re.compile(
    r"""
    (?P<skipped> \s+ | //[^\n]* | /\*(?:[^*]|\*(?!/))*+\*/ )
    | (?P<name> [A-Za-z_][A-Za-z0-9_]* )
    | (?P<number> 0[xX][0-9a-fA-F]+ | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]? )
    | (?P<string> "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' )
    | (?P<symbol> [{}\[\]()<>=;,.:+/-] )
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_SIMPLE: Mapping[str, str] = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"',
    "?": "?",
}  # fmt: skip
_ESCAPED: Mapping[str, str] = {char: f"\\{name}" for name, char in _SIMPLE.items() if name != "?"}


class Token(NamedTuple):
    """A token. `text`: of a string, without quotes and escapes; `line`: counted from 1."""

    kind: Literal["name", "number", "string", "symbol", "end"]
    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    """Return the tokens, one of kind ``end`` last. Raises: InvalidSchema."""
    tokens: list[Token] = []
    position = 1 if text.startswith("\ufeff") else 0
    line = 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidSchema(f"{WHAT} has {short_repr(text[position : position + 20])} at line {line}, unexpectedly")
        kind, found = match.lastgroup, match.group()
        if kind == "number" and len(found) > NUMBER_CHARACTERS_MAX:
            raise InvalidSchema(f"{WHAT} has a number of {len(found)} characters at line {line}")
        if kind == "string":
            tokens.append(Token("string", _unescaped(found[1:-1], line), line))
        elif kind != "skipped":
            tokens.append(Token(kind, found, line))  # type: ignore[arg-type]
        line += found.count("\n")
        position = match.end()
    tokens.append(Token("end", "", line))
    return tokens


def _unescaped(text: str, line: int) -> str:
    """Return a text with its escapes resolved; bytes that are no UTF-8 become lone surrogates."""
    if "\\" not in text:
        return text

    def resolve(match: re.Match[str]) -> bytes:
        hexadecimal, octal, short, long, simple = match.groups()
        if hexadecimal or octal:
            return bytes([int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 0xFF])
        if short or long:
            try:
                return chr(int(short or long, 16)).encode()
            except (ValueError, OverflowError):  # beyond Unicode, or half a surrogate pair
                raise InvalidSchema(f"{WHAT} has the escape {match.group()} at line {line}: no character") from None
        if simple not in _SIMPLE:
            raise InvalidSchema(f"{WHAT} has the unknown escape {match.group()} at line {line}")
        return _SIMPLE[simple].encode()

    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(text):
        parts += [text[position : match.start()].encode(), resolve(match)]
        position = match.end()
    parts.append(text[position:].encode())
    return b"".join(parts).decode("utf-8", "surrogateescape")


def escaped(text: str) -> str:
    """Return a text as it stands between quotes."""
    return "".join(_escaped_character(one) for one in text)


def _escaped_character(one: str) -> str:
    if one in _ESCAPED:
        return _ESCAPED[one]
    if "\udc80" <= one <= "\udcff":  # a byte
        return f"\\{ord(one) - 0xDC00:03o}"
    return one if one >= " " and one != "\x7f" else f"\\{ord(one):03o}"
