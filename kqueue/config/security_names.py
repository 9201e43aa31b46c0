"""Names that look like settings of security, and that would be left out.

A broker that left them out would run without the protection, so it does not start. Names of plugins
and distributions of Kafka begin with words of their own; a file may have them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from kqueue.base.config import Config
from kqueue.base.names import did_you_mean, nearest
from kqueue.base.settings import Prefix
from kqueue.config.catalog import CATALOG
from kqueue.config.kafka_settings import UNDECLARED, refusal_of
from kqueue.replication.config import INTER_BROKER_MECHANISM
from kqueue.security.sasl.config import ENABLED_MECHANISMS

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
STOPS = "It looks like a setting of security, and the broker does not start without it"
WORDS_ALIKE, NAMES_ALIKE = 0.75, 0.9
"""The similarity from which two first words, or two whole names, are one with a mistake."""
_SECURITY = re.compile(
    r"(?:^|[_.])(ssl|tls|sasl|jaas|scram|oauthbearer|gssapi|kerberos|acls?|auth\w*|super|users?|principals?|passwords?|"
    r"passphrase|secrets?|tokens?|keys?|keystore|truststore|credentials?|security|listeners?|insecure|encrypt\w*|"
    r"certs?|certificates?|jwks)(?=[_.]|$)",
    re.IGNORECASE,
)
_OF_LISTENER = re.compile(r"listener\.name\.(?P<listener>[^.]+)\.(?P<rest>.+)")


def looks_like_security(name: str) -> bool:
    """Return whether a name, or the nearest one of a setting, has a word of security."""
    if _SECURITY.search(name) is not None:
        return True
    near = nearest(name, (*CATALOG.broker, *UNDECLARED))
    return near is not None and _SECURITY.search(near) is not None


def is_misspelt(name: str) -> bool:
    """Return whether an unknown name means a setting of security, and not one of a plugin, which
    has a first word of its own.
    """
    if not looks_like_security(name):
        return False
    if nearest(name, CATALOG.broker, least=NAMES_ALIKE) is not None:
        return True
    return nearest(_first_word(name), _first_words(), least=WORDS_ALIKE) is not None


def problem_of(name: str, listeners: Collection[str]) -> str | None:
    """Return why a setting of security of one listener would be left out; None: it would not, or is
    none.

    Args: listeners: the names in upper case of listeners that other settings name.
    """
    match = _OF_LISTENER.fullmatch(name)
    if match is None or _SECURITY.search(match["rest"]) is None:
        return None
    rest = match["rest"]
    first, _, behind = rest.partition(".")
    if CATALOG.find_broker(name) is None:
        if rest in UNDECLARED or behind in UNDECLARED:
            return None  # Kafka's: it has no effect here, or is refused
        if CATALOG.find_broker(name.lower()) is not None:
            return f"expected the names of listener and mechanism in lower case: {name.lower()}"
        if rest in CATALOG.broker:
            return f"{rest} can't be set for one listener, only for all of them"
        with_prefix = [row.name for row in CATALOG.broker.values() if row.prefix is not Prefix.NONE]
        return f"a listener has no setting {rest!r}{did_you_mean(behind or rest, with_prefix)}"
    if match["listener"].upper() not in listeners:
        return f"no listener is called {match['listener']!r} (there are: {', '.join(sorted(listeners)).lower()})"
    if rest not in CATALOG.broker and first.upper() not in MECHANISMS:
        return f"no mechanism is called {first!r} (there are: {', '.join(MECHANISMS).lower()})"
    return None


def unused_because(name: str, config: Config) -> str | None:
    """Return why a setting of one listener and mechanism has no effect; None: it has, or it is
    another.
    """
    match = _OF_LISTENER.fullmatch(name)
    if match is None or match["rest"] in CATALOG.broker or CATALOG.find_broker(name) is None:
        return None
    mechanism = match["rest"].partition(".")[0].upper()
    # The broker's own login at the others is under the listener too, whatever that one enables.
    enabled = {*config.of_listener(match["listener"], ENABLED_MECHANISMS), config[INTER_BROKER_MECHANISM]}
    return None if mechanism in enabled else f"{mechanism} is not in {ENABLED_MECHANISMS} of this listener"


@cache
def _first_words() -> frozenset[str]:
    effective = (*CATALOG.broker, *(name for name in UNDECLARED if refusal_of(name) is not None))
    return frozenset(_first_word(name) for name in effective if _SECURITY.search(name))


def _first_word(name: str) -> str:
    return re.split("[._-]", name.lower())[0]
