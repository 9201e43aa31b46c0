"""The TLS context of one listener: made of its settings, and made anew when they or the files that
they name change.

`ssl` and packages that read key stores are imported on use: a server without TLS needs none.
"""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import Clock
from kqueue.base.config import Config, SlowCheck
from kqueue.base.errors import SettingError
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.key_stores import (
    StoreSettings,
    first_certificate,
    load_key_pair,
    read_key_store,
    read_trust_store,
)
from kqueue.base.timers import PeriodicTimer
from kqueue.config.exposure import client_auth
from kqueue.config.listeners import ListenerConfig
from kqueue.config.tls_options import reason_of, use_protocols, use_suites
from kqueue.network.connections import ConnectionRegistry
from kqueue.security.principal_mapping import PrincipalMapper
from kqueue.security.tls_config import CONNECTION_SETTINGS, KEY_SETTINGS
from kqueue.security.x500_names import alternative_names_of, end_of, subject_of

_MODES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_QUEUE = "TLS key stores"
WARNED_BEFORE = timedelta(days=14)
"""The time before a certificate's end from which on it is warned of."""
_FileStates = tuple[tuple[int, int, int] | None, ...]
logger = logging.getLogger("kqueue.server")


class TlsSettings(NamedTuple):
    """The settings of TLS on one listener."""

    listener: str
    keys: StoreSettings
    trusted: StoreSettings
    client_auth: str
    protocols: tuple[str, ...]
    suites: tuple[str, ...]
    dn_changes: bool
    san_changes: bool

    @classmethod
    def of(cls, plan: ListenerConfig, config: Config) -> TlsSettings:
        """Return the settings of a listener."""
        name = plan.bind.name

        def value(setting: str) -> str | None:
            text: str | None = config.of_listener(name, setting)
            return text

        keys = StoreSettings(
            "ssl.keystore",
            value("ssl.keystore.type") or "",
            value("ssl.keystore.location"),
            value("ssl.keystore.password"),
            value("ssl.keystore.certificate.chain"),
            value("ssl.keystore.key"),
            value("ssl.key.password"),
        )
        trusted = StoreSettings(
            "ssl.truststore",
            value("ssl.truststore.type") or "",
            value("ssl.truststore.location"),
            value("ssl.truststore.password"),
            value("ssl.truststore.certificates"),
        )
        return cls(
            name,
            keys,
            trusted,
            client_auth(config, plan),
            tuple(config.of_listener(name, "ssl.enabled.protocols")),
            tuple(config.of_listener(name, "ssl.cipher.suites")),
            config["ssl.allow.dn.changes"],
            config["ssl.allow.san.changes"],
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        return tuple(location for location in (self.keys.location, self.trusted.location) if location)


class TlsContext(NamedTuple):
    """The TLS context that new connections of one listener use.

    Attributes:
        suites: those that a connection may end up with, by OpenSSL's names; empty: all.
        certificate: of the broker, as DER.
    """

    context: ssl.SSLContext
    suites: frozenset[str]
    certificate: bytes


def build_context(settings: TlsSettings) -> TlsContext:
    """Return the context that these settings ask for. Reads files.

    Raises: SettingError: a store can't be read, or what is in it does not fit together.
    """
    if settings.keys.is_empty:
        raise SettingError(
            f"listener {settings.listener} needs a certificate: set ssl.keystore.type=PEM and ssl.keystore.location "
            f"(kqueue certs makes one), or listener.name.{settings.listener.lower()}.ssl.keystore.location"
        )
    try:
        return _build(settings)
    except SettingError as error:
        raise SettingError(f"listener {settings.listener}: {error}") from None


def _build(settings: TlsSettings) -> TlsContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    use_protocols(context, settings.protocols)
    context.options |= ssl.OP_NO_COMPRESSION | getattr(ssl, "OP_NO_RENEGOTIATION", 0)
    suites = use_suites(context, settings.suites)
    pair = read_key_store(settings.keys)
    try:
        load_key_pair(context, pair)
    except (OSError, ValueError) as error:
        raise SettingError(
            f"the key and certificate of ssl.keystore can't be used: {reason_of(error)}; expected a key that belongs "
            f"to the first certificate, and its password in ssl.key.password if it is encrypted"
        ) from None
    context.verify_mode = _MODES[settings.client_auth]
    if settings.client_auth != "none":
        _trust(context, settings)
    return TlsContext(context, suites, ssl.PEM_cert_to_DER_cert(first_certificate(pair.chain)))


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.trusted.is_empty:
        events.LISTENER_INSECURE.log(
            logger,
            "listener %s accepts client certificates of all of the system's authorities: "
            "ssl.truststore.location should name those of your own",
            listener=settings.listener,
        )
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    certificates = read_trust_store(settings.trusted)
    try:
        context.load_verify_locations(cadata=certificates)
    except (OSError, ValueError) as error:
        raise SettingError(f"the certificates of ssl.truststore can't be used: {reason_of(error)}") from None


_Look = tuple[_FileStates, TlsContext | SettingError | None]
"""The state of the files, and the context or error made of them; None: they are as before."""


class ListenerTls:
    """The current context of one listener. New connections use it; existing ones keep theirs.

    Args:
        plan: the listener.
        clock: says whether the certificate is near its end, or past it; each is logged once.
    Raises: SettingError: see `build_context`.
    """

    def __init__(self, plan: ListenerConfig, config: Config, clock: Clock) -> None:
        self.plan = plan
        self.mapper = PrincipalMapper(config.of_listener(plan.bind.name, "ssl.principal.mapping.rules"))
        self._config = config
        self._settings = TlsSettings.of(plan, config)
        self._states: _FileStates | None = _file_states(self._settings)  # None: to be built anew
        self.current = build_context(self._settings)
        self._clock = clock
        self._warned = ""
        self._warn_of_expiry()
        self._building = False
        self._jobs: Jobs | None = None
        self._timer: PeriodicTimer | None = None

    def start(self, registry: ConnectionRegistry) -> None:
        """Follow changes of settings and files."""
        self._jobs = registry.jobs
        self._timer = registry.every(self._config["kqueue.tls.reload.interval.ms"], self._look)
        self._config.observe(_observed(self.plan.bind.name), self._changed, self._check)

    def close(self) -> None:
        """Look for changes no more."""
        if self._timer is not None:
            self._timer.cancel()

    def reload(self) -> None:
        """Use what is in the files now. Raises SettingError: it can't be used, nothing changes."""
        states, built = _file_states(self._settings), build_context(self._settings)
        _check_successor(self.current, built, self._settings)
        self._states, self.current = states, built
        self._warn_of_expiry()

    @property
    def takes_certificates(self) -> bool:
        """Whether the certificate of a client, if it has one, says who it is."""
        return self.current.context.verify_mode != ssl.CERT_NONE and not self.plan.protocol.uses_sasl

    def _check(self, config: Config) -> SlowCheck:
        """Opening a key store takes hundreds of milliseconds: passwords of PKCS12 are hashed."""
        settings, current = TlsSettings.of(self.plan, config), self.current
        return lambda: _check_successor(current, build_context(settings), settings)

    def _changed(self) -> None:
        self._settings = TlsSettings.of(self.plan, self._config)
        self._states = None
        self._look()

    def _look(self) -> None:
        """Have a job look at the files, and make a context of them if they have changed."""
        if self._building or self._jobs is None:
            return
        self._building = True
        settings, states = self._settings, self._states

        def run() -> _Look:
            new_states = _file_states(settings)
            if new_states == states:
                return new_states, None
            try:
                return new_states, build_context(settings)
            except SettingError as error:
                return new_states, error

        self._jobs.submit(IoJob("look at key stores", run, partial(self._have_looked, settings), _QUEUE))

    def _have_looked(self, settings: TlsSettings, result: _Look | None, error: BaseException | None) -> None:
        self._building = False
        if settings is not self._settings:  # they have changed meanwhile
            self._look()
            return
        if result is None:
            events.CERTIFICATE_UNREADABLE.log(
                logger, "listener %s: key stores can't be looked at: %s", listener=self.plan.bind.name, error=error
            )
            return
        self._states, built = result
        if isinstance(built, TlsContext):
            try:
                _check_successor(self.current, built, settings)
            except SettingError as refusal:
                built = refusal
        if isinstance(built, SettingError):
            events.CERTIFICATE_REFUSED.log(
                logger, "the new certificate is not used, the one before is: %s", error=built
            )
        elif built is not None:
            self.current = built
            events.CERTIFICATE_RENEWED.log(
                logger, "listener %s uses its new key store or trust store", listener=self.plan.bind.name
            )
        self._warn_of_expiry()

    def _warn_of_expiry(self) -> None:
        """Log once that the certificate expires soon, and once that clients refuse it."""
        words = _expiry(self.current.certificate, self._clock.wall_ms())
        if words and words != self._warned:
            events.CERTIFICATE_EXPIRING.log(
                logger, "listener %s: its certificate %s", listener=self.plan.bind.name, what=words
            )
        self._warned = words


def _observed(listener: str) -> list[str]:
    names = [row.name for row in (*KEY_SETTINGS, *CONNECTION_SETTINGS)]
    return [*names, *(f"listener.name.{listener.lower()}.{name}" for name in names)]


def _check_successor(old: TlsContext, new: TlsContext, settings: TlsSettings) -> None:
    """Raise SettingError if clients could take the new certificate for another broker's."""
    if old.certificate == new.certificate:
        return
    before, after = subject_of(old.certificate), subject_of(new.certificate)
    if before != after and not settings.dn_changes:
        raise SettingError(
            f"listener {settings.listener}: the new certificate is of {after}, expected {before} as before "
            f"(ssl.allow.dn.changes)"
        )
    if not settings.san_changes and not alternative_names_of(old.certificate) <= alternative_names_of(new.certificate):
        raise SettingError(
            f"listener {settings.listener}: the new certificate lacks alternative names of the one before "
            f"(ssl.allow.san.changes)"
        )


def _expiry(certificate: bytes, now_ms: int) -> str:
    """Return what to say of a certificate that is near its end, or past it; "": it is neither."""
    end, now = end_of(certificate), datetime.fromtimestamp(now_ms / 1000, UTC)
    remedy = "replace the file of ssl.keystore.location by one with a new certificate (kqueue certs broker makes one)"
    if now > end:
        return f"expired at {end:%Y-%m-%d %H:%M:%S} UTC, so that clients refuse it: {remedy}"
    if now > end - WARNED_BEFORE:
        return f"expires at {end:%Y-%m-%d %H:%M:%S} UTC: {remedy} before that"
    return ""


def _file_states(settings: TlsSettings) -> _FileStates:
    """Return what changes with a file, for each; None: it can't be looked at."""
    states: list[tuple[int, int, int] | None] = []
    for file in settings.files:
        try:
            stat = Path(file).stat()
        except OSError:
            states.append(None)
        else:
            states.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(states)
