"""Option tables shared by the source and the sink. No pyspark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kqueue.base.names import did_you_mean
from kqueue.spark.errors import OptionError

_SECURE = ("kafka.sasl.", "kafka.ssl.")
_PROTOCOL = "kafka.security.protocol"


class Option(NamedTuple):
    """One option. `parse(text, name)` raises OptionError.

    `of`: the kind of query: "batch", "stream" or "both". `doc`: one sentence.
    """

    name: str
    parse: Callable[[str, str], Any]
    default: Any
    of: str
    doc: str


def nonempty(text: str, option: str) -> str:
    """Return the stripped text. Raises: OptionError: it is empty."""
    if not text.strip():
        raise OptionError(f"{option} is empty")
    return text.strip()


def one_of(*words: str) -> Callable[[str, str], str]:
    """Return a parser that accepts one of these words in any case."""

    def parse(text: str, option: str) -> str:
        if text.strip().lower() not in words:
            raise OptionError(f"{option}: expected {', '.join(words[:-1])} or {words[-1]}, found {text!r}")
        return text.strip().lower()

    return parse


class OptionTable:
    """The options of the source or the sink, with ignored and refused options of Spark's connector.

    Args:
        ignored: options of Spark's Kafka connector that are accepted without effect.
        refused: options that are refused, with the advice for each.
        who: "readers" or "writers", for messages.
        prefix: further options with this lower-case prefix are ignored.
    """

    def __init__(
        self,
        options: Sequence[Option],
        ignored: Sequence[str],
        refused: Mapping[str, str],
        *,
        who: str,
        prefix: str | None = None,
    ) -> None:
        self.by_name = {option.name.lower(): option for option in options}
        self._refused = refused
        self._known = {option.name.lower(): option.name for option in options} | {
            name.lower(): name for name in ignored
        }
        self._who = who
        self._prefix = prefix

    def values(
        self, given: Mapping[str, str], *, streaming: bool, misplaced: Callable[[Option], str]
    ) -> dict[str, Any]:
        """Return the value of each option by its own name, or its default.

        Args:
            given: option names in any case, as Spark passes them.
            misplaced: returns the message for an option of the other kind of query.
        Raises: OptionError: unknown (the message offers the nearest name), invalid or misplaced.
        """
        values = {option.name: option.default for option in self.by_name.values()}
        for name, value in given.items():
            option = self._find(name, str(value))
            if option is not None:
                if option.of not in ("both", "stream" if streaming else "batch"):
                    raise OptionError(misplaced(option))
                values[option.name] = option.parse(str(value), option.name)
        return values

    def _find(self, name: str, value: str) -> Option | None:
        """The option of this name, None: it has no meaning here. Raises OptionError."""
        lower = name.lower()
        if lower in self.by_name:
            return self.by_name[lower]
        if lower in self._refused:
            raise OptionError(f"{lower} is not supported: {self._refused[lower]}")
        if lower.startswith(_SECURE) or (lower == _PROTOCOL and value.strip().upper() != "PLAINTEXT"):
            raise OptionError(f"{lower}: TLS and SASL are not supported yet; {self._who} connect in plain text")
        if lower == _PROTOCOL or lower in self._known or (self._prefix is not None and lower.startswith(self._prefix)):
            return None
        # with the letters large and small as the docs have them
        offered = re.sub(r"'(.*)'", lambda match: repr(self._known[match[1]]), did_you_mean(lower, self._known))
        raise OptionError(f"there is no option {name!r}{offered}")
