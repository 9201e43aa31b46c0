"""Users' names from the distinguished names of certificates, by rules.

Rules: ``RULE:pattern/replacement/``, with ``L`` or ``U`` after it for lower or upper case, or
``DEFAULT``, comma separated. Source: Kafka's SslPrincipalMapper (KIP-371).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kqueue.base.errors import SettingError
from kqueue.base.linear_regex import LinearRegex, PatternError

NAME_LENGTH_MAX = 2000
"""A longer distinguished name matches no rule."""
_STATES_MAX = 5000
_RULE = re.compile(
    r"[\s,]*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,[\s,]*|\Z)"
)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)|(.)", re.DOTALL)
_DOT = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\.", re.DOTALL)
_ANY = "[^\n\r\u0085\u2028\u2029]"
"""The characters that ``.`` matches in Java."""


class _Rule(NamedTuple):
    """One rule. `pattern` None: DEFAULT. `filter` decides in linear time whether it matches."""

    pattern: re.Pattern[str] | None = None
    filter: LinearRegex | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None or self.filter is None:
            return name
        # `re` may take exponential time to find that nothing matches
        if not self.filter.fullmatch(name) or self.pattern.fullmatch(name) is None:
            return None
        result = self._replaced(self.pattern, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _replaced(self, pattern: re.Pattern[str], name: str) -> str:
        """Replace every match; after an empty one the next begins a character later, as in Java."""
        parts, copied, position = [], 0, 0
        while position <= len(name) and (match := pattern.search(name, position)):
            parts += [name[copied : match.start()], self._expanded(match)]
            copied = match.end()
            position = copied + (match.start() == copied)
        return "".join([*parts, name[copied:]])

    def _expanded(self, match: re.Match[str]) -> str:
        return "".join(
            escaped or plain or _group(match, digits) for escaped, digits, plain in _REFERENCE.findall(self.replacement)
        )


def _group(match: re.Match[str], digits: str) -> str:
    """Return what ``$digits`` stands for: the digits that name a group, and the others as text."""
    for length in range(len(digits), 0, -1):
        if int(digits[:length]) <= match.re.groups:
            return (match[int(digits[:length])] or "") + digits[length:]
    return f"${digits}"


class PrincipalMapper:
    """Applies the rules of one listener."""

    def __init__(self, rules: str) -> None:
        """Raises SettingError: a rule is malformed, or its pattern is not supported."""
        self._rules: list[_Rule] = []
        position, text = 0, rules.strip() or "DEFAULT"
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise SettingError(
                    f"ssl.principal.mapping.rules: expected DEFAULT or RULE:pattern/replacement/ with an L or U after "
                    f"it, comma separated, found {text[position:]!r}"
                )
            self._rules.append(_Rule() if match["default"] else _parsed(match["pattern"], match))
            position = match.end()

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the user's name, without its type; None: no rule matches."""
        if len(distinguished_name) > NAME_LENGTH_MAX:
            return None
        names = (rule.apply(distinguished_name) for rule in self._rules)
        return next((name for name in names if name is not None), None)


def _check_references(replacement: str, groups: int) -> None:
    """Raise SettingError for what Kafka accepts, and fails with when a client connects."""
    for _, digits, plain in _REFERENCE.findall(replacement):
        if plain == "$" or (digits.strip("0") and not groups):
            raise SettingError(
                f"ssl.principal.mapping.rules: replacement {replacement!r}: expected a group of the pattern after $, "
                f"and \\$ for a dollar sign"
            )


def _parsed(pattern: str, match: re.Match[str]) -> _Rule:
    try:
        own = _DOT.sub(lambda dot: dot[1] or _ANY, pattern)
        compiled = re.compile(own, re.ASCII)
        rule = _Rule(compiled, LinearRegex(own, _STATES_MAX, java=True), match["replacement"], match["case"])
        _check_references(rule.replacement, compiled.groups)
        return rule
    except (PatternError, re.error) as error:
        raise SettingError(f"ssl.principal.mapping.rules: pattern {pattern!r}: {error}") from None
