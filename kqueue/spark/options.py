"""Option tables shared by the source and the sink. No pyspark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean
from kqueue.spark.errors import OptionError

if TYPE_CHECKING:
    from kqueue.config.client_security import ClientSecurity

STAGING_PREFIX = "_kqueue-sink-"
"""Prefix of the names of the sink's own topics; patterns of the source leave them out."""
KAFKA = "kafka."
SECURE = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
"""Prefixes of the options of TLS and SASL: Kafka's client properties after ``kafka.``."""
CLIENTS_IGNORED = (
    "kafka.auto.include.jmx.reporter", "kafka.client.dns.lookup", "kafka.connections.max.idle.ms",
    "kafka.enable.metrics.push", "kafka.metadata.max.age.ms", "kafka.metadata.recovery.rebootstrap.trigger.ms",
    "kafka.metadata.recovery.strategy", "kafka.metrics.num.samples", "kafka.metrics.recording.level",
    "kafka.metrics.sample.window.ms", "kafka.receive.buffer.bytes", "kafka.reconnect.backoff.max.ms",
    "kafka.reconnect.backoff.ms", "kafka.retry.backoff.max.ms", "kafka.retry.backoff.ms", "kafka.send.buffer.bytes",
    "kafka.socket.connection.setup.timeout.max.ms", "kafka.socket.connection.setup.timeout.ms",
)  # fmt: skip
"""Options of Kafka's consumers and producers that are accepted without effect."""
CLIENTS_REFUSED = {
    "kafka.config.providers": "values are taken as they are",
    "kafka.interceptor.classes": "there is no Java that could run them",
    "kafka.metric.reporters": "there is no Java that could run them",
}
_JAVA = "there is no Java that could run it"
_KERBEROS = "Kerberos is not supported: use SCRAM-SHA-512, PLAIN, OAUTHBEARER or certificates of clients"
_ASSERTIONS = "tokens come from a file, or by the grant of client credentials"
SECURITY_REFUSED = {
    "kafka.sasl.client.callback.handler.class": _JAVA,
    "kafka.sasl.login.class": _JAVA,
    "kafka.ssl.engine.factory.class": _JAVA,
    "kafka.sasl.kerberos.": _KERBEROS,
    "kafka.sasl.oauthbearer.assertion.": _ASSERTIONS,
}
"""Options of Kafka's clients that are refused, with the reason; a last dot: all that begin so."""
SECURITY_IGNORED = (
    "kafka.sasl.oauthbearer.clock.skew.seconds",
    "kafka.sasl.oauthbearer.expected.audience",
    "kafka.sasl.oauthbearer.expected.issuer",
    "kafka.sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "kafka.sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "kafka.sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "kafka.sasl.oauthbearer.jwks.endpoint.url",
)
"""Options of those that check tokens, which are brokers."""
_SECURITY_NAME = re.compile(r"(?<![\w./])(?=(?:security|ssl|sasl)\.[a-z])")


class Option(NamedTuple):
    """One option. `parse(text, name)` raises OptionError.

    `of`: the kind of query: "batch", "stream" or "both". `doc`: one sentence.
    """

    name: str
    parse: Callable[[str, str], Any]
    default: Any
    of: str
    doc: str


def whole_number(least: int, most: int) -> Callable[[str, str], int]:
    """Return a parser of whole numbers in a range, both ends included."""

    def parse(text: str, option: str) -> int:
        if not re.fullmatch(r"\s*-?\d{1,19}\s*", text, re.ASCII) or not least <= int(text) <= most:
            raise OptionError(f"{option}: expected a whole number from {least} to {most}, found {text!r}")
        return int(text)

    return parse


def truth(text: str, option: str) -> bool:
    """Parse true or false. Raises: OptionError."""
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{option}: expected true or false, found {text!r}")
    return text.strip().lower() == "true"


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
        prefix: further options with this lower-case prefix are ignored.
    """

    def __init__(
        self,
        options: Sequence[Option],
        ignored: Sequence[str],
        refused: Mapping[str, str],
        *,
        prefix: str | None = None,
    ) -> None:
        self.by_name = {option.name.lower(): option for option in options}
        self._refused = refused
        self._known = {option.name.lower(): option.name for option in options} | {
            name.lower(): name for name in ignored
        }
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
            option = self._find(name)
            if option is not None:
                if option.of not in ("both", "stream" if streaming else "batch"):
                    raise OptionError(misplaced(option))
                values[option.name] = option.parse(str(value), option.name)
        return values

    def _find(self, name: str) -> Option | None:
        """Return the option of this name, None: it has no meaning here. Raises OptionError."""
        lower = name.lower()
        if lower in self.by_name:
            return self.by_name[lower]
        if lower in self._refused:
            raise OptionError(f"{lower} is not supported: {self._refused[lower]}")
        if lower.startswith(SECURE) or lower in self._known:
            return None
        if self._prefix is not None and lower.startswith(self._prefix):
            return None
        # with the letters large and small as the docs have them
        offered = re.sub(r"'(.*)'", lambda match: repr(self._known[match[1]]), did_you_mean(lower, self._known))
        raise OptionError(f"there is no option {name!r}{offered}")


def security_of(given: Mapping[str, str]) -> ClientSecurity | None:
    """Return what the options of TLS and SASL say, with the files that they name, because executors
    may not have them; None: neither is used.

    Args:
        given: all options, with names in any case.
    Raises: OptionError: an unknown or unsupported one, or a wrong value; no value is shown that
        may be secret.
    """
    properties = {}
    for name, value in given.items():
        lower = name.lower()
        if not lower.startswith(SECURE):
            continue
        for refused, reason in SECURITY_REFUSED.items():
            if lower == refused or (refused.endswith(".") and lower.startswith(refused)):
                raise OptionError(f"{lower} is not supported: {reason}")
        if lower not in SECURITY_IGNORED:
            properties[lower.removeprefix(KAFKA)] = str(value)
    if not properties:
        return None
    from kqueue.config.client_security import ClientSecurity

    try:
        security = ClientSecurity.of(properties).with_files()
    except SettingError as error:
        raise OptionError(_SECURITY_NAME.sub(KAFKA, str(error))) from None
    return None if security.protocol.name == "PLAINTEXT" else security
