"""Reads settings from a server.properties file, environment variables and name=value pairs. Later
sources take precedence.

The file format is Java's: ``name=value`` (or ``:`` or a blank between them), ``#`` and ``!`` begin
comment lines, a backslash at the end joins the next line, ``\\t \\n \\r \\f \\uXXXX`` are escapes.
Source: java.util.Properties.load.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean
from kqueue.base.settings import Catalog
from kqueue.config import plugins
from kqueue.config.catalog import CATALOG
from kqueue.config.kafka_settings import UNDECLARED, is_undeclared, reason_for, refusal_of
from kqueue.replication.config import CLUSTER_STORE

FILE_BYTES_MAX = 1024 * 1024
ENVIRONMENT_PREFIX = "KQUEUE_"
PLUGIN_VARIABLES = "kqueue.variables"
# Variables of the command line, and those that Kubernetes sets for a service called kqueue.
_NO_SETTING = re.compile(
    r"KQUEUE_(BOOTSTRAP|COMMAND_CONFIG|PROFILE|TIMEOUT|CLIENT_\w+|SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)\Z"
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_PAIR = re.compile(r"(?P<name>(?:\\.|[^\\=:\s])*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|\Z)(?P<value>.*)\Z", re.DOTALL)
logger = logging.getLogger("kqueue.server")


class SourcedValue(NamedTuple):
    """An unparsed value and its source, for messages."""

    value: object
    origin: str


def read_config(
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    pairs: Iterable[str] = (),
    keywords: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration from all sources, in increasing precedence.

    Logs one warning for each setting of Kafka that has no effect.

    Args:
        file: path of a server.properties.
        environment: ``KQUEUE_LOG_DIRS`` sets ``log.dirs``; other variables are ignored.
        pairs: ``name=value`` texts.
        keywords: values by setting name.
    Raises: SettingError: an unknown name (with the nearest one), a bad value (with the valid ones)
        or an unreadable file; the message names the source.
    """
    given = read_values(file, environment, pairs)
    given.update({name: SourcedValue(value, "the arguments") for name, value in (keywords or {}).items()})
    return make_config(given)


def read_values(
    file: str | Path | None, environment: Mapping[str, str] | None, pairs: Iterable[str]
) -> dict[str, SourcedValue]:
    """Return the texts of all sources, which are not checked yet; see `read_config`."""
    given: dict[str, SourcedValue] = {}
    if file is not None:
        given.update(read_file(Path(file)))
    given.update(from_environment(environment or {}))
    given.update(dict(map(_parse_pair, pairs)))
    return given


def make_config(given: Mapping[str, SourcedValue], objects: plugins.PluginObjects | None = None) -> Config:
    """Check every value against its setting; see `read_config`. `objects`: plugins that values may
    name.
    """
    named = {name: value.value for name, value in given.items() if name == plugins.POLICIES_SETTING}
    with plugins.register_policies(Config(CATALOG, named), objects):  # log.cleanup.policy may name one
        return _checked(given)


def _checked(given: Mapping[str, SourcedValue]) -> Config:
    known = {}
    for name, (value, origin) in given.items():
        row = CATALOG.find_broker(name)
        if row is not None:
            try:
                parsed = row.parse(value)
            except SettingError as error:
                raise SettingError(f"{origin}: {error}") from None
            if parsed not in (None, row.default) and row.without_effect:
                logger.warning("%s: %s has no effect: %s", origin, name, row.doc)
            elif parsed not in (None, row.default) and row.cluster_only and CLUSTER_STORE not in given:
                logger.warning("%s: %s has no effect without %s", origin, name, CLUSTER_STORE)
            known[name] = value
        elif is_undeclared(name):
            _check_refusal(name, value, origin)
            logger.warning("%s: %s has no effect and is left out: %s", origin, name, reason_for(name))
        else:
            raise SettingError(f"{origin}: {_unknown(name, CATALOG)}")
    return Config(CATALOG, known)


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


def from_environment(environment: Mapping[str, str]) -> dict[str, SourcedValue]:
    """Return the settings among environment variables: ``KQUEUE_`` and the name in upper case, with
    underscores for dots.

    Variables of plugins are ignored: those that an installed distribution names in the entry-point
    group `PLUGIN_VARIABLES`.
    """
    by_variable = {_variable(name): name for name in (*UNDECLARED, *CATALOG.broker)}
    given = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or _NO_SETTING.match(variable):
            continue
        name = by_variable.get(variable)
        if name is None and metadata.entry_points(group=PLUGIN_VARIABLES, name=variable):
            continue
        name = name or variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
        given[name] = SourcedValue(value, f"environment variable {variable}")
    return given


def keyword_name(keyword: str) -> str:
    """Return the setting of a Python keyword: ``log_segment_bytes`` -> ``log.segment.bytes``."""
    return keyword.replace("_", ".")


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_").replace("-", "_")


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
