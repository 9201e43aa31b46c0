"""The mechanisms of a listener, from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, LoginModule, parse_jaas
from kqueue.security.made_up_credentials import CredentialForms, MadeUpCredentials
from kqueue.security.principals import USER_TYPE, Principal
from kqueue.security.sasl.config import ENABLED_MECHANISMS, JAAS_CONFIG, REAUTH_MS_MAX, USERS_FILE
from kqueue.security.sasl.contract import NewServerMechanism
from kqueue.security.sasl.exchange import OfferedMechanism
from kqueue.security.sasl.oauthbearer import OAUTHBEARER, OAuthBearerServer
from kqueue.security.sasl.passwords import HASHED_BY, Passwords
from kqueue.security.sasl.plain import PLAIN, PlainServer
from kqueue.security.sasl.scram import ScramServer
from kqueue.security.sasl.token_validators import OpenKeys, token_validator
from kqueue.security.scram_credentials import (
    SCRAM_MECHANISMS,
    FindScramAccount,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    decode_credential,
    make_credential,
)

FILE_BYTES_MAX = 16 * 1024 * 1024
SUPPORTED = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)


class MechanismSources(NamedTuple):
    """The sources that mechanisms use besides the settings of their listener.

    `find_scram`: looks up users that are not in the settings. `made_up`: credentials of users that
    do not exist. `open_keys`: reads the keys of identity providers.
    """

    find_scram: FindScramAccount
    made_up: MadeUpCredentials
    open_keys: OpenKeys
    clock: Clock


class SaslListenerConfig(NamedTuple):
    """The settings that the mechanisms of one listener read, by the listener's name."""

    config: Config
    listener: str

    def value(self, name: str, mechanism: str | None = None) -> object:
        """Return a setting of this listener, and of a mechanism."""
        return self.config.of_listener(self.listener, name, mechanism)

    def setting(self, name: str, mechanism: str) -> str:
        """Return the full name of a setting, for messages."""
        return f"listener.name.{self.listener.lower()}.{mechanism.lower()}.{name}"


def offered_mechanisms(settings: SaslListenerConfig, sources: MechanismSources) -> dict[str, OfferedMechanism]:
    """Return the mechanisms of a listener, by name, in the order of the setting.

    Raises: SettingError: none is enabled, one is not supported, or its settings are wrong.
    """
    names = [name.upper() for name in settings.config.of_listener(settings.listener, ENABLED_MECHANISMS)]
    if not names:
        raise SettingError(
            f"listener {settings.listener} needs {ENABLED_MECHANISMS}, a list of {', '.join(SUPPORTED)}, found none"
        )
    return {
        name: OfferedMechanism(
            _mechanism(name, settings, sources),
            settings.config.of_listener(settings.listener, REAUTH_MS_MAX, name),
        )
        for name in names
    }


def _mechanism(name: str, settings: SaslListenerConfig, sources: MechanismSources) -> NewServerMechanism:
    if name == PLAIN:
        passwords = _passwords(settings)
        return lambda: PlainServer(passwords)
    if name in SCRAM_MECHANISMS:
        mechanism = SCRAM_MECHANISMS[name]
        find, made_up = _with_configured(mechanism, _users(settings, name, SCRAM_MODULE), sources)
        return lambda: ScramServer(mechanism, find, made_up)
    if name == OAUTHBEARER:
        module = login_module(settings, OAUTHBEARER, OAUTHBEARER_MODULE)
        validator = token_validator(settings.config, settings.listener, module, sources.clock, sources.open_keys)
        return lambda: OAuthBearerServer(validator)
    raise SettingError(f"{ENABLED_MECHANISMS}: expected a list of {', '.join(SUPPORTED)}, found {name}")


def _passwords(settings: SaslListenerConfig) -> Passwords:
    users = _users(settings, PLAIN, PLAIN_MODULE)
    if not users:
        raise SettingError(
            f"PLAIN of listener {settings.listener} has no users: set "
            f'{settings.setting(JAAS_CONFIG, PLAIN)}={PLAIN_MODULE} required user_NAME="PASSWORD"; '
            f"or {settings.setting(USERS_FILE, PLAIN)}"
        )
    return Passwords(users)


def _with_configured(
    mechanism: ScramMechanism, users: Mapping[str, str | ScramCredential], sources: MechanismSources
) -> tuple[FindScramAccount, MadeUpCredentials]:
    """Return a look-up that knows these users too, and credentials of those who are unknown to it.
    These users come before those of `sources`. Salts of passwords are those that their users would
    have if they did not exist, and so the same after each start.
    """
    find, accounts, forms = sources.find_scram, {}, CredentialForms()
    for user, known in users.items():
        if isinstance(known, str):
            known = make_credential(mechanism, known, salt=sources.made_up.salt(mechanism, user))
        elif mechanism is not HASHED_BY:
            continue
        accounts[user] = ScramAccount(known, Principal(USER_TYPE, user))
        forms.add(mechanism, known)
    if not accounts:
        return find, sources.made_up

    def find_both(name: str, user: str, by_token: bool) -> ScramAccount | None:
        stored = find(name, user, by_token)
        return stored if by_token else accounts.get(user, stored)

    return find_both, sources.made_up.besides(forms)


def _users(settings: SaslListenerConfig, mechanism: str, module_name: str) -> dict[str, str | ScramCredential]:
    """Return the users of a mechanism: of the users file, and those of the login module over it."""
    users: dict[str, str | ScramCredential] = {}
    path = settings.value(USERS_FILE, mechanism)
    if path is not None:
        users.update(read_users(str(path), settings.setting(USERS_FILE, mechanism)))
    module = login_module(settings, mechanism, module_name)
    if module is not None:
        users.update(module.users)
    return users


def login_module(settings: SaslListenerConfig, mechanism: str, expected: str) -> LoginModule | None:
    """Return the login module of a mechanism; None: none is set. One that is set for all mechanisms
    is used by that which it belongs to.

    Raises: SettingError: it is another mechanism's, or can't be read.
    """
    text = settings.value(JAAS_CONFIG, mechanism)
    if text is None:
        return None
    name = settings.setting(JAAS_CONFIG, mechanism)
    module = parse_jaas(str(text), name)
    if module.name == expected:
        return module
    if text == settings.config.of_listener(settings.listener, JAAS_CONFIG):
        return None
    raise SettingError(f"{name}: expected the login module {expected}, found {module.name}")


def read_users(path: str, setting: str) -> dict[str, str | ScramCredential]:
    """Read a users file: ``user=password`` lines; empty ones and those that begin with # are
    skipped.

    Raises: SettingError: with the number of the line, never what it contains.
    """
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingError(f"{setting}: cannot read {Path(path).name}: {reason}") from None
    if len(text) > FILE_BYTES_MAX:
        raise SettingError(f"{setting}: expected at most {FILE_BYTES_MAX} bytes in {Path(path).name}")
    users: dict[str, str | ScramCredential] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        user, sign, password = (part.strip() for part in line.partition("="))
        if not user or not sign or not password or user in users:
            raise SettingError(f"{setting}: line {number}: expected user=password, each user once")
        users[user] = _credential(password, f"{setting}: line {number}") if _is_encoded(password) else password
    return users


def _is_encoded(password: str) -> bool:
    return password.startswith("SCRAM-SHA-") and "$" in password


def _credential(text: str, where: str) -> ScramCredential:
    try:
        mechanism, credential = decode_credential(text)
    except ValueError as error:
        raise SettingError(f"{where}: {error}") from None
    if mechanism is not HASHED_BY:
        raise SettingError(f"{where}: expected a credential of {HASHED_BY.name}, found one of {mechanism.name}")
    return credential
