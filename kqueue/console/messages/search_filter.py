"""Which records a search finds: by key, value, header, and JSON path."""

from __future__ import annotations

from dataclasses import dataclass, field

from kqueue.console.messages.json_path import JsonPath
from kqueue.console.messages.plain_values import plain_text
from kqueue.console.messages.value_view import ValueReader
from kqueue.records.record import Record

TEXT_CHARACTERS_MAX = 500


@dataclass(slots=True)
class SearchFilter:
    """A record is found if it has all that is given; "" stands for anything.

    Attributes:
        key, text: text that the key, or the value, contains; upper and lower case differ.
        header: the name of a header, or ``name=text`` that its value contains.
        path: a JSON path, see `JsonPath`, into the value.
        skipped: how many values the path could not be tried on, as they are no documents.
    Raises: ValueError: the path is none, or a text is too long.
    """

    key: str = ""
    text: str = ""
    header: str = ""
    path: str = ""
    form: str = "auto"
    reader: ValueReader = field(default_factory=ValueReader)
    skipped: int = 0
    _path: JsonPath | None = None

    def __post_init__(self) -> None:
        for given in (self.key, self.text, self.header, self.path):
            if len(given) > TEXT_CHARACTERS_MAX:
                raise ValueError(f"a text to search for has at most {TEXT_CHARACTERS_MAX} characters")
        self._path = JsonPath(self.path) if self.path.strip() else None

    @property
    def is_empty(self) -> bool:
        """Whether it finds all records."""
        return not (self.key or self.text or self.header or self._path)

    def __call__(self, partition: int, record: Record) -> bool:
        """Return whether the record is found."""
        return (
            _contains(record.key, self.key)
            and self._has_header(record)
            and (not self.text or self._has_text(record.value))
            and (self._path is None or self._has_path(record.value))
        )

    def _has_header(self, record: Record) -> bool:
        if not self.header:
            return True
        wanted, equals, text = self.header.partition("=")
        return any(name == wanted and (not equals or _contains(value, text)) for name, value in record.headers)

    def _has_text(self, value: bytes | None) -> bool:
        """Look into the bytes, and into what a schema or MessagePack makes of them."""
        if _contains(value, self.text):
            return True
        if value is None or value[:1] in (b"{", b"["):
            return False
        try:
            return self.text in plain_text(self.reader.document(value, self.form))
        except (ValueError, RecursionError):
            return False

    def _has_path(self, value: bytes | None) -> bool:
        assert self._path is not None
        try:
            return value is not None and self._path.matches(self.reader.document(value, self.form))
        except ValueError:
            self.skipped += 1
            return False


def _contains(data: bytes | None, text: str) -> bool:
    return not text or (data is not None and text.encode("utf-8", "surrogatepass") in data)
