"""Names of settings in environment variables.

    log.dirs                        KQUEUE_LOG_DIRS
    listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config
                                    KQUEUE_LISTENER_NAME_SASL_SSL_SCRAM_SHA_256_SASL_JAAS_CONFIG
                                    KQUEUE_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG

A dot is an underscore. Settings of kqueue's own have their prefix once or twice: `kqueue.flush` is
KQUEUE_FLUSH, and KQUEUE_KQUEUE_FLUSH. Names of listeners and mechanisms may have underscores and
hyphens; they are found among those that there are, however they are spelt: as in the first form, or
with the escapes of Kafka's images (``__`` for an underscore, ``___`` for a hyphen; others have it
the other way round). A variable that looks like a setting of security and is none stops the start:
the broker would run without the protection.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.errors import SettingError
from kqueue.base.names import nearest
from kqueue.base.settings import Prefix
from kqueue.config.catalog import CATALOG
from kqueue.config.config_providers import PREFIX as PROVIDER_PREFIX
from kqueue.config.kafka_settings import REMOVED, UNDECLARED
from kqueue.config.security_names import MECHANISMS, STOPS, looks_like_security

ENVIRONMENT_PREFIX = "KQUEUE_"
PLUGIN_VARIABLES = "kqueue.variables"
# Variables of the command line, and those that Kubernetes sets for a service called kqueue.
_NO_SETTING = re.compile(
    r"KQUEUE_(BOOTSTRAP|COMMAND_CONFIG|CONSOLE_TOKEN|PROFILE|TIMEOUT|CLIENT_\w+|SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)\Z"
)
_LISTENER = "LISTENER_NAME_"
_OWN_SETTINGS = "kqueue."
_FAMILIES = (PROVIDER_PREFIX, "metric.reporters.", "rsm.config.", "rlmm.config.", "zookeeper.ssl.")
logger = logging.getLogger("kqueue.server")


class _Prefixed(NamedTuple):
    """A setting of a listener, and of a mechanism, that a variable may mean."""

    listener: str
    mechanism: str | None
    setting: str

    @property
    def owner(self) -> str:
        """The listener, or listener and mechanism."""
        return ".".join(filter(None, (self.listener, self.mechanism))).lower()

    @property
    def name(self) -> str:
        """The name of the setting, with its prefixes."""
        return f"listener.name.{self.owner}.{self.setting}"


def setting_names(variables: Iterable[str], listeners: Iterable[str]) -> dict[str, str]:
    """Return the setting that each environment variable means; those that mean none are left out.

    Variables of plugins are ignored: those that an installed distribution names in the entry-point
    group `PLUGIN_VARIABLES`. Others that mean no setting are logged.

    Args: listeners: the names of all listeners.
    Raises: SettingError: one looks like a setting of security and is none, or several are meant.
    """
    known = _known_variables()
    listeners = list(listeners)
    names = {}
    for variable in variables:
        if not variable.startswith(ENVIRONMENT_PREFIX) or _NO_SETTING.match(variable):
            continue
        stem = variable.removeprefix(ENVIRONMENT_PREFIX)
        name = known.get(variable)
        if name is None and stem.startswith(_LISTENER):
            name = _of_listener(variable, stem.removeprefix(_LISTENER), listeners)
        if name is None and (decoded := unescaped(stem)).startswith(_FAMILIES):
            name = decoded
        if name is not None:
            names[variable] = name
        elif not metadata.entry_points(group=PLUGIN_VARIABLES, name=variable):
            _leave_out(variable, unescaped(stem))
    return names


def _known_variables() -> dict[str, str]:
    """Return the setting of each variable that needs no listener. A name of Kafka goes before a
    short one of kqueue's own.
    """
    known = {_variable(name): name for name in (*REMOVED, *UNDECLARED, *CATALOG.broker)}
    for name in CATALOG.broker:
        if name.startswith(_OWN_SETTINGS):
            known.setdefault(_variable(name.removeprefix(_OWN_SETTINGS)), name)
    return known


def unescaped(stem: str) -> str:
    """Return a name as Kafka's images read it: ``_`` is a dot, ``__`` ``_`` and ``___`` ``-``."""
    return re.sub("_{1,3}", lambda underscores: "._-"[len(underscores[0]) - 1], stem).lower()


def _leave_out(variable: str, name: str) -> None:
    near = nearest(name, (*CATALOG.broker, *UNDECLARED))
    guess = f"; did you mean {_shown(near)}?" if near is not None else ""
    problem = f"environment variable {variable}: no setting is called {name!r}{guess}"
    if looks_like_security(name):
        raise SettingError(f"{problem} {STOPS}")
    events.SETTING_LEFT_OUT.log(logger, "%s: it is left out", problem=problem)


def _shown(name: str) -> str:
    return f"{_variable(name)} ({name})" if name.replace(".", "_").isidentifier() else repr(name)


def _of_listener(variable: str, body: str, listeners: list[str]) -> str | None:
    """Return the setting of one listener that a variable means; None: it has no name of a setting
    at its end. `body`: what follows LISTENER_NAME_.
    """
    endings = [(name, body.removesuffix(f"_{_variable_stem(name)}")) for name in (*CATALOG.broker, *UNDECLARED)]
    endings = [(name, head) for name, head in endings if head != body]
    if not endings:
        return None
    candidates = {
        each for name, head in endings for each in _candidates(name, listeners) if _folded(head) == _folded(each.owner)
    }
    if len(candidates) > 1:  # they differ in underscores, hyphens and dots only
        spelt = {variant for _, head in endings for variant in _spellings(head)}
        exact = {each for each in candidates if each.owner in spelt}
        if len(exact) != 1:
            names = " or ".join(sorted(each.name for each in candidates))
            raise SettingError(
                f"environment variable {variable} may mean {names}: write __ for an underscore and ___ for a hyphen"
            )
        candidates = exact
    if candidates:
        return next(iter(candidates)).name
    raise SettingError(
        f"environment variable {variable}: it names a setting of a listener, {max(endings, key=len)[0]}, and no "
        f"listener (of {', '.join(listeners)}), or listener and mechanism, that is spelt so"
    )


def _candidates(setting: str, listeners: list[str]) -> Iterator[_Prefixed]:
    row = CATALOG.broker.get(setting)
    for listener in listeners:
        yield _Prefixed(listener, None, setting)
        if row is None or row.prefix is Prefix.MECHANISM:
            yield from (_Prefixed(listener, mechanism, setting) for mechanism in MECHANISMS)


def _spellings(head: str) -> set[str]:
    """Return what `head` means with the escapes of Kafka's images, and of others."""
    confluent = re.sub("_{1,3}", lambda underscores: ".-_"[len(underscores[0]) - 1], head).lower()
    return {unescaped(head), confluent}


def _folded(name: str) -> str:
    return re.sub("[^A-Z0-9]+", "_", name.upper())


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + _variable_stem(name)


def _variable_stem(name: str) -> str:
    return name.upper().replace(".", "_").replace("-", "_")
