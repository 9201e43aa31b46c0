"""JAAS configuration, as in the setting ``sasl.jaas.config``: one login module with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret";

Source: Kafka's JaasConfig. A message about wrong text never shows it: it has passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kqueue.base.errors import SettingError

PACKAGE = "org.apache.kafka.common.security."
PLAIN_MODULE = f"{PACKAGE}plain.PlainLoginModule"
SCRAM_MODULE = f"{PACKAGE}scram.ScramLoginModule"
OAUTHBEARER_MODULE = f"{PACKAGE}oauthbearer.OAuthBearerLoginModule"
FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<sign>[=;]) | (?P<word>[^\s"'=;]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module: its class name and options. `repr` does not show the options."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords that the options give, by user: ``user_ann="secret"``."""
        prefix = "user_"
        return {key.removeprefix(prefix): value for key, value in self.options.items() if key.startswith(prefix)}


def parse_jaas(text: str, setting: str) -> LoginModule:
    """Return the only login module of `text`.

    Args: setting: its name, for the message. Raises: SettingError.
    """
    words = _tokens(text, setting)
    if len(words) < 3 or words[-1] != (";", True) or words[1][0].lower() not in FLAGS:
        raise SettingError(f"{setting}: expected a login module class, one of {', '.join(FLAGS)}, options, and ';'")
    options: dict[str, str] = {}
    rest = words[2:-1]
    while rest:
        if len(rest) < 3 or rest[0][1] or rest[1] != ("=", True) or rest[2][1]:
            raise SettingError(
                f'{setting}: expected options of one login module as name="value", option {len(options) + 1} is not'
            )
        if rest[0][0] in options:
            raise SettingError(f"{setting}: option {len(options) + 1} is given twice")
        options[rest[0][0]] = rest[2][0]
        rest = rest[3:]
    return LoginModule(words[0][0], options)


def format_jaas(module: str, options: Mapping[str, str]) -> str:
    """Return the text that `parse_jaas` reads as this login module, which is required."""
    values = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{module} required {values};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, character in _ESCAPES.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f'"{escaped}"'


def _tokens(text: str, setting: str) -> list[tuple[str, bool]]:
    """Return words, and signs (True)."""
    tokens: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SettingError(f"{setting}: a quoted value has no end")
        position = match.end()
        kind = match.lastgroup
        if kind in ("double", "single"):
            tokens.append((re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), match[kind], flags=re.S), False))
        elif kind is not None:
            tokens.append((match[kind], kind == "sign"))
    return tokens
