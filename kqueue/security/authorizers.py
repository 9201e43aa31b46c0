"""Authorizers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kqueue.base.errors import PluginError, SettingError
from kqueue.base.registry import Registry, RegistryEntry

if TYPE_CHECKING:
    from kqueue.security.authorizer import Authorizer, AuthorizerSetup

AuthorizerFactory = Callable[["AuthorizerSetup"], "Authorizer"]

SETTING = "authorizer.class.name"
STANDARD = "standard"
KAFKA_NAMES = {"org.apache.kafka.metadata.authorizer.StandardAuthorizer": STANDARD}
"""Classes that Kafka's setting may name, and which authorizer that is here."""
ZOOKEEPER_NAMES = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""Kafka's authorizers that kept their ACLs in ZooKeeper; Kafka 4 has removed them."""
_METHODS = ("authorize", "authorize_any")


def _checked(factory: AuthorizerFactory, entry: RegistryEntry[AuthorizerFactory]) -> AuthorizerFactory:
    title = entry.title("authorizer")
    if not callable(factory):
        raise PluginError(
            f"{title}: expected a class or callable that takes an AuthorizerSetup, found {factory!r:.100}"
        )

    def make(setup: AuthorizerSetup) -> Authorizer:
        try:
            authorizer = factory(setup)
        except Exception as error:
            raise PluginError(f"{title} could not be made", detail=f"{type(error).__name__}: {error}") from error
        missing = next((name for name in _METHODS if not callable(getattr(authorizer, name, None))), None)
        if missing is not None:
            raise PluginError(
                f"{title}: expected an authorizer, found {type(authorizer).__name__} without the method {missing}"
            )
        return authorizer

    return make


def _standard(setup: AuthorizerSetup) -> Authorizer:
    from kqueue.security.standard_authorizer import StandardAuthorizer  # on use: most brokers have none

    return StandardAuthorizer(setup)


AUTHORIZERS: Registry[AuthorizerFactory] = Registry("kqueue.authorizers", "authorizer", guard=_checked)
AUTHORIZERS.add(STANDARD, _standard)


def authorizer_name(value: str) -> str:
    """Return the name or ``module:object`` of the authorizer that the setting names.

    Raises: SettingError: Kafka's authorizers with ZooKeeper.
    """
    if value in ZOOKEEPER_NAMES:
        raise SettingError(
            f"{SETTING}={value}: it kept ACLs in ZooKeeper, and Kafka 4 removed it; use "
            f"{next(iter(KAFKA_NAMES))}, and add the ACLs again by `kqueue acls add`"
        )
    return KAFKA_NAMES.get(value, value)


def is_authorizer(value: str) -> bool:
    """Return whether the setting has a valid value: empty, registered, or a module:object path that
    the start resolves.

    Raises: SettingError: no plugin has this name.
    """
    if not value or ":" in value:
        return True
    try:
        return AUTHORIZERS.get(authorizer_name(value)) is not None
    except PluginError as error:
        raise SettingError(f"{SETTING}={value}: {error}") from None
