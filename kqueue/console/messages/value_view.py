"""A key or value as text: JSON, text, hex, MessagePack, or by a schema.

Nothing raises: bytes that are not of the form that was chosen are shown in the form that fits, with
the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgpack  # type: ignore[import-untyped]

from kqueue.base.terminal import escaped
from kqueue.console.messages.json_layout import laid_out, on_one_line, parse_json
from kqueue.console.messages.message import Excerpt
from kqueue.console.messages.plain_values import plain, plain_text

FORMS: Mapping[str, str] = {
    "auto": "detect",
    "json": "JSON",
    "text": "text",
    "hex": "hex",
    "msgpack": "MessagePack",
    "schema": "by schema",
}
"""The forms to choose from, with their names on pages."""
DECODED_BYTES_MAX = 1024 * 1024
"""Longer values are shown as text or hex only."""
_HEX_ROW = 16
_PRINTABLE = re.compile(rb"[^\x20-\x7e]")


class DecodedValue(NamedTuple):
    """A value decoded by a schema. `value`: of JSON. `schema`: what it was decoded by, in words."""

    value: Any
    schema: str


class SchemaDecoder(Protocol):
    """Decodes values by the schemas that the console was started with."""

    def applies_to(self, data: bytes, *, is_key: bool) -> bool:
        """Return whether these bytes are written by a schema, by what can be seen at once."""
        ...

    def decode(self, data: bytes, *, is_key: bool) -> DecodedValue:
        """Return the value. Raises: ValueError: with the reason."""
        ...


@dataclass(frozen=True, slots=True)
class ValueView:
    """What is shown of a key or value.

    Attributes:
        form: the form it has: "null", or one of `FORMS` other than "auto".
        text: harmless: control characters are escaped; cut after the asked number of characters.
        size: bytes of the whole.
        is_cut: whether `text` is not all.
        schema: the schema by which it was decoded; "": none.
        reason: why it is not in the form that was chosen or detected; "": it is.
    """

    form: str
    text: str
    size: int
    is_cut: bool = False
    schema: str = ""
    reason: str = ""


class ValueReader:
    """Shows keys and values, and gives their documents to searches.

    Args: schemas: None: the console has no schemas.
    Thread: any, if `schemas` is.
    """

    def __init__(self, schemas: SchemaDecoder | None = None) -> None:
        self._schemas = schemas

    @property
    def forms(self) -> dict[str, str]:
        """The forms that can be chosen, with their names."""
        return {form: name for form, name in FORMS.items() if form != "schema" or self._schemas is not None}

    def view(
        self, part: Excerpt, form: str = "auto", *, characters_max: int, is_key: bool = False, one_line: bool = False
    ) -> ValueView:
        """Return what to show.

        Args:
            form: of `FORMS`; any other is "auto".
            one_line: as an entry of a list, without line ends.
        """
        if part.data is None:
            return ValueView("null", "null", 0)
        reason = ""
        for attempt in self._attempts(part, form, is_key):
            try:
                shown, text, schema = self._shown(part, attempt, is_key, characters_max, one_line)
            except (ValueError, RecursionError) as error:
                if attempt in FORMS and not reason:
                    reason = f"not {FORMS[attempt]}: {_words(error)}"
                continue
            text = escaped(text)
            if one_line:
                text = text.replace("\n", "\\n").replace("\t", "\\t")
            is_cut = part.is_cut or len(text) > characters_max
            return ValueView(shown, text[:characters_max], part.size, is_cut, schema, reason)
        raise AssertionError("hex shows any bytes")

    def document(self, data: bytes | None, form: str = "auto", *, is_key: bool = False) -> Any:
        """Return the value as one of JSON, for a path. Raises: ValueError: it is none."""
        if data is None:
            return None
        if len(data) > DECODED_BYTES_MAX:
            raise ValueError(f"it has more than {DECODED_BYTES_MAX:,} bytes")
        for attempt in self._attempts(Excerpt(data, len(data)), form, is_key):
            try:
                return self._document(data, attempt, is_key)
            except (ValueError, RecursionError):
                continue
        raise ValueError("it is no document")

    def _attempts(self, part: Excerpt, form: str, is_key: bool) -> Iterator[str]:
        data = part.data or b""
        if form in FORMS and form != "auto":
            yield form
        elif not part.is_cut:
            if self._schemas is not None and self._schemas.applies_to(data, is_key=is_key):
                yield "schema"
            if data.lstrip()[:1] in (b"{", b"["):
                yield "json"
        if form != "hex":
            yield "plain"
        yield "hex"

    def _shown(
        self, part: Excerpt, attempt: str, is_key: bool, characters_max: int, one_line: bool
    ) -> tuple[str, str, str]:
        """Return the form, the text and the schema. Raises: ValueError, RecursionError."""
        data = part.data or b""
        if attempt == "hex":
            return "hex", _hex(data, characters_max, one_line=one_line), ""
        if attempt == "text":
            return "text", data[: 4 * characters_max].decode("utf-8", "backslashreplace"), ""
        if attempt == "plain":
            return self._plain(part, characters_max, one_line)
        if part.is_cut or len(data) > DECODED_BYTES_MAX:
            raise ValueError(f"it has {part.size:,} bytes, too many to decode on a page")
        if attempt == "json":
            text, schema = data.decode(), ""
            parse_json(text)
        elif attempt == "msgpack":
            text, schema = plain_text(_unpacked(data)), ""
        else:
            decoded = self._by_schema(data, is_key)
            text, schema = plain_text(decoded.value), decoded.schema
        return attempt, on_one_line(text) if one_line else laid_out(text, characters_max), schema

    def _plain(self, part: Excerpt, characters_max: int, one_line: bool) -> tuple[str, str, str]:
        """Return text if the bytes are one, or MessagePack if they are a map or list of it."""
        data = part.data or b""
        try:
            text = _utf8(data[: 4 * characters_max + 4], is_cut=part.is_cut or len(data) > 4 * characters_max + 4)
        except UnicodeDecodeError:
            text = None
        if text is not None and "\0" not in text:
            return "text", text, ""
        if part.is_cut or len(data) > DECODED_BYTES_MAX:
            raise ValueError("no text")
        laid = plain_text(_unpacked_container(data))
        return "msgpack", laid if one_line else laid_out(laid, characters_max), ""

    def _document(self, data: bytes, attempt: str, is_key: bool) -> Any:
        decoders: Mapping[str, Callable[[], Any]] = {
            "json": lambda: parse_json(data.decode()),
            "msgpack": lambda: _unpacked(data),
            "plain": lambda: _unpacked_container(data) if data[:1] >= b"\x80" else parse_json(data.decode()),
            "schema": lambda: self._by_schema(data, is_key).value,
        }
        if attempt not in decoders:
            raise ValueError("it is no document")
        return decoders[attempt]()

    def _by_schema(self, data: bytes, is_key: bool) -> DecodedValue:
        if self._schemas is None:
            raise ValueError("the console has no schemas: start it with --schema-registry")
        return self._schemas.decode(data, is_key=is_key)


def _unpacked(data: bytes) -> Any:
    """Return MessagePack as a value of JSON. Raises: ValueError."""
    try:
        return plain(msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="backslashreplace"))
    except (msgpack.UnpackException, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(_words(error)) from None  # a map with a key that can't be hashed is a TypeError


def _unpacked_container(data: bytes) -> Any:
    """Return a map or list of MessagePack: any byte is a number of it. Raises: ValueError."""
    value = _unpacked(data)
    if not isinstance(value, (dict, list)) or not value:
        raise ValueError("no map or list")
    return value


def _utf8(data: bytes, *, is_cut: bool) -> str:
    """Return text. Raises: UnicodeDecodeError: but for a character that the cut divides."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(data) - 3:
            return data[: error.start].decode()
        raise


def _hex(data: bytes, characters_max: int, *, one_line: bool) -> str:
    if one_line:
        return data[: characters_max // 2 + 1].hex(" ")
    rows = []
    for start in range(0, min(len(data), characters_max // 4), _HEX_ROW):
        row = data[start : start + _HEX_ROW]
        rows.append(f"{start:08x}  {row.hex(' '):<47}  {_PRINTABLE.sub(b'.', row).decode()}")
    return "\n".join(rows)


def _words(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 at byte {error.start:,}"
    words = " ".join(str(error).split())[:200]
    return words or type(error).__name__
