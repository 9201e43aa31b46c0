"""Reads settings from a server.properties file, environment variables and name=value pairs. Later
sources take precedence.

The file format is Java's: ``name=value`` (or ``:`` or a blank between them), ``#`` and ``!`` begin
comment lines, a backslash at the end joins the next line, ``\\t \\n \\r \\f \\uXXXX`` are escapes.
Source: java.util.Properties.load.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean
from kqueue.base.settings import Catalog
from kqueue.config import metrics_listener, plugins
from kqueue.config.catalog import CATALOG
from kqueue.config.config_providers import PREFIX as PROVIDER_PREFIX
from kqueue.config.config_providers import ConfigProviders
from kqueue.config.environment import setting_names
from kqueue.config.kafka_settings import UNDECLARED, is_undeclared, reason_for, refusal_of
from kqueue.config.listeners import CONTROL_PLANE_LISTENER, CONTROLLER_LISTENERS, PROTOCOLS
from kqueue.config.security_names import STOPS, is_misspelt, problem_of, unused_because
from kqueue.replication.config import CLUSTER_STORE

FILE_BYTES_MAX = 1024 * 1024
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PAIR = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|\Z)(?P<value>.*)\Z", re.DOTALL)
logger = logging.getLogger("kqueue.server")


class SourcedValue(NamedTuple):
    """An unparsed value and its source, for messages.

    Attributes:
        provided: what names the value in a config provider, where it comes from one. Messages show
            this, and not the value.
    """

    value: object
    origin: str
    provided: str | None = None


def read_values(
    file: str | Path | None, environment: Mapping[str, str] | None, pairs: Iterable[str]
) -> dict[str, SourcedValue]:
    """Return the texts of all sources, in increasing precedence; `make_config` checks the values.

    Args:
        file: path of a server.properties.
        environment: ``KQUEUE_LOG_DIRS`` sets ``log.dirs``; see `environment`.
        pairs: ``name=value`` texts.
    Raises: SettingError: an unreadable file, or an unknown name of the environment that looks like
        a setting of security. Other unknown names of a file or of the environment are logged.
    """
    given: dict[str, SourcedValue] = {}
    if file is not None:
        given.update(_without_unknown(read_file(Path(file))))
    last = dict(map(_parse_pair, pairs))
    of_environment = environment or {}
    given.update(from_environment(of_environment, _listener_names(given, of_environment, last)))
    given.update(last)
    return given


def _without_unknown(given: Mapping[str, SourcedValue]) -> dict[str, SourcedValue]:
    """Leave out, and log, the names of a file that nobody knows: plugins and distributions of Kafka
    have their own. Raises SettingError: names that look like settings of security.
    """
    known, misspelt = {}, []
    for name, sourced in given.items():
        if _is_known(name):
            known[name] = sourced
        elif is_misspelt(name):
            misspelt.append(f"{sourced.origin}: {_unknown(name, CATALOG)}")
        else:
            events.SETTING_LEFT_OUT.log(
                logger, "%s is left out: %s", origin=sourced.origin, reason=_unknown(name, CATALOG)
            )
    if misspelt:
        raise SettingError(f"{'; '.join(misspelt)} {STOPS}")
    return known


def _listener_names(
    given: Mapping[str, SourcedValue], environment: Mapping[str, str], last: Mapping[str, SourcedValue]
) -> list[str]:
    """Return the names of the listeners of the strongest source that has some; no check of them."""
    strongest = last.get("listeners") or environment.get("KQUEUE_LISTENERS") or given.get("listeners")
    text = strongest.value if isinstance(strongest, SourcedValue) else strongest
    addresses = CATALOG.broker["listeners"].parse(text) if text else CATALOG.broker["listeners"].default
    return [address.partition("://")[0].strip().upper() for address in addresses]


def make_config(given: Mapping[str, SourcedValue], objects: plugins.PluginObjects | None = None) -> Config:
    """Check every value against its setting. Logs one warning for each setting of Kafka that has no
    effect.

    Args: objects: plugins that values may name.
    Raises: SettingError: an unknown name (with the nearest one) or a bad value (with the valid
        ones); the message names the source.
    """
    given = _resolved(given)
    named = {name: value.value for name, value in given.items() if name == plugins.POLICIES_SETTING}
    with plugins.register_policies(Config(CATALOG, named), objects):  # log.cleanup.policy may name one
        return _checked(given)


def _resolved(given: Mapping[str, SourcedValue]) -> Mapping[str, SourcedValue]:
    """Return the settings with the values of config providers in place of their references."""
    values = {name: sourced.value for name, sourced in given.items()}
    providers = ConfigProviders(
        values, os.environ, lambda text: {name: value for _, name, value in parse_properties(text)}
    )
    if not providers:
        return given
    resolved = {}
    for name, sourced in given.items():
        if name.startswith(PROVIDER_PREFIX):
            continue  # read above
        value = sourced.value
        if isinstance(value, str):
            try:
                value = providers.resolve(value)
            except SettingError as error:
                raise SettingError(f"{sourced.origin}: {name}: {error}") from None
        provided = None if value == sourced.value else str(sourced.value)
        resolved[name] = SourcedValue(value, sourced.origin, provided)
    return resolved


def _checked(given: Mapping[str, SourcedValue]) -> Config:
    known = {}
    unknown = [f"{origin}: {_unknown(name, CATALOG)}" for name, (_, origin, _) in given.items() if not _is_known(name)]
    if unknown:
        raise SettingError("; ".join(unknown))
    for name, (value, origin, provided) in given.items():
        row = CATALOG.find_broker(name)
        if row is not None:
            try:
                parsed = row.parse(value)
            except SettingError as error:
                if provided is not None:
                    raise SettingError(f"{origin}: {name}: expected {row.expected}, found another value") from None
                raise SettingError(f"{origin}: {error}") from None
            if parsed not in (None, row.default) and row.without_effect:
                events.SETTING_WITHOUT_EFFECT.log(
                    logger, "%s: %s has no effect: %s", origin=origin, setting=name, reason=row.doc
                )
            elif parsed not in (None, row.default) and row.cluster_only and CLUSTER_STORE not in given:
                events.SETTING_WITHOUT_EFFECT.log(
                    logger, "%s: %s has no effect without %s", origin=origin, setting=name, needs=CLUSTER_STORE
                )
            known[name] = value
        else:
            _check_refusal(name, value, origin)
            events.SETTING_LEFT_OUT.log(
                logger, "%s: %s has no effect and is left out: %s", origin=origin, setting=name, reason=reason_for(name)
            )
    config = Config(CATALOG, known)
    listeners = _named_listeners(config)
    problems = [(origin, name, problem_of(name, listeners)) for name, (_, origin, _) in given.items()]
    left_out = [f"{origin}: {name}: {problem}" for origin, name, problem in problems if problem is not None]
    if left_out:
        raise SettingError(f"{'; '.join(left_out)}. {STOPS}")
    for name, (_, origin, _) in given.items():
        if (reason := unused_because(name, config)) is not None:
            events.SETTING_WITHOUT_EFFECT.log(
                logger, "%s: %s has no effect: %s", origin=origin, setting=name, reason=reason
            )
    return config


def _named_listeners(config: Config) -> set[str]:
    """Return the names in upper case of listeners, of controllers' listeners, of those with a
    protocol, and of that for metrics.
    """
    entries = [*config["listeners"], *config[CONTROLLER_LISTENERS], config[CONTROL_PLANE_LISTENER] or ""]
    if config.is_set(PROTOCOLS):
        entries += config[PROTOCOLS]
    names = {entry.partition(":")[0].strip().upper() for entry in entries if entry}
    return names | {metrics_listener.NAME} if config.is_set(metrics_listener.SETTING) else names


def _is_known(name: str) -> bool:
    return CATALOG.find_broker(name) is not None or is_undeclared(name)


def _check_refusal(name: str, value: object, origin: str) -> None:
    refusal = refusal_of(name)
    if refusal is not None and ("" if value is None else str(value).strip().lower()) not in refusal.allowed:
        raise SettingError(
            f"{origin}: {name} asks for {refusal.asks_for}, which kqueue does not have; remove it to serve without"
        )


def read_file(path: Path) -> dict[str, SourcedValue]:
    """Read a server.properties file (UTF-8, at most 1 MiB). The last value of a name counts.

    Raises: SettingError.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        if len(raw) > FILE_BYTES_MAX:
            raise SettingError(f"{path}: a settings file has at most {FILE_BYTES_MAX} bytes")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise SettingError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}") from None
    return {name: SourcedValue(value, f"{path} line {number}") for number, name, value in parse_properties(text)}


def parse_properties(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, name and value of each setting in the text of a properties file."""
    for number, line in _logical_lines(text):
        match = _PAIR.match(line)
        assert match is not None, "every line matches"
        yield number, _unescape(match["name"]), _unescape(match["value"])


def from_environment(environment: Mapping[str, str], listeners: Iterable[str] = ()) -> dict[str, SourcedValue]:
    """Return the settings among environment variables: ``KQUEUE_`` and the name in upper case, with
    underscores for dots.

    Args: listeners: the names of all listeners.
    Raises: SettingError: a variable looks like a setting of security, and is none, or two give one
        setting different values.
    """
    given: dict[str, SourcedValue] = {}
    for variable, name in setting_names(environment, listeners).items():
        sourced = SourcedValue(environment[variable], f"environment variable {variable}")
        if name in given and given[name].value != sourced.value:
            raise SettingError(f"{given[name].origin} and {variable} give {name} different values: leave one out")
        given[name] = sourced
    return given


def keyword_name(keyword: str) -> str:
    """Return the setting of a Python keyword: ``log_segment_bytes`` -> ``log.segment.bytes``."""
    return keyword.replace("_", ".")


def _parse_pair(pair: str) -> tuple[str, SourcedValue]:
    name, equals, value = pair.partition("=")
    name = name.strip()
    if not equals or not name:
        # the value may be a secret, so it is not shown
        shown = f"{name!r} without a value" if name in CATALOG.broker or name in UNDECLARED else "no name before a ="
        raise SettingError(f"--set: expected name=value, found {shown}")
    return name, SourcedValue(value.strip(), f"--set {name}")


def _unknown(name: str, catalog: Catalog) -> str:
    if name in catalog.topic:
        synonyms = catalog.topic[name].synonyms
        default = f"; the default of all topics is set by {synonyms[-1].name}" if synonyms else ""
        return f"{name} is a setting of topics, not of the broker{default}"
    return f"no setting is called {name!r}{did_you_mean(name, [*catalog.broker, *UNDECLARED])}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, joined where the line end is escaped, without comments, empty lines and
    leading blanks.
    """
    begun: int | None = None
    line = ""
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        part = raw.lstrip(" \t\f")
        if begun is None:
            if not part or part[0] in "#!":
                continue
            begun = number
        if (len(part) - len(part.rstrip("\\"))) % 2:
            line += part[:-1]
            continue
        yield begun, line + part
        begun, line = None, ""
    if begun is not None:
        yield begun, line


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)
