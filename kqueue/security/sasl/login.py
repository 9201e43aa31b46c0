"""A client's authentication by SASL: its mechanism, user and password."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kqueue.base.errors import SettingError
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE, LoginModule
from kqueue.security.sasl.contract import ClientMechanism
from kqueue.security.sasl.plain import PLAIN, PlainClient
from kqueue.security.sasl.scram import TOKEN_EXTENSION, ScramClient
from kqueue.security.scram_credentials import SCRAM_MECHANISMS

MODULES: Mapping[str, str] = {PLAIN: PLAIN_MODULE, **dict.fromkeys(SCRAM_MECHANISMS, SCRAM_MODULE)}
"""The login module of each mechanism."""


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A mechanism with a user and its password, which `repr` does not show; it can be pickled.

    `by_token`: they are the id and HMAC of a delegation token.
    """

    mechanism: str
    user: str
    password: str = field(repr=False)
    by_token: bool = False

    def begin(self) -> ClientMechanism:
        """Return the client's side of one authentication."""
        if self.mechanism == PLAIN:
            return PlainClient(self.user, self.password)
        return ScramClient(SCRAM_MECHANISMS[self.mechanism], self.user, self.password, by_token=self.by_token)


def checked_mechanism(name: str, setting: str, names: Collection[str] = MODULES) -> str:
    """Return the name of a mechanism, which must be one of `names`. Raises SettingError."""
    if name.upper() not in names:
        raise SettingError(f"{setting}={name}: expected one of {', '.join(names)}")
    return name.upper()


def login_of(mechanism: str, module: LoginModule, setting: str) -> SaslLogin:
    """Return the login that the options of a module say.

    Args: mechanism: one of `MODULES`. setting: the module's, for messages, which show no option.
    Raises: SettingError.
    """
    if module.name != MODULES[mechanism]:
        raise SettingError(f"{setting}: expected the login module {MODULES[mechanism]} of {mechanism}")
    user, password = module.options.get("username"), module.options.get("password")
    if not user or not password:
        raise SettingError(f'{setting}: expected the options username="..." and password="..." of this client')
    return SaslLogin(mechanism, user, password, module.options.get(TOKEN_EXTENSION, "").lower() == "true")
