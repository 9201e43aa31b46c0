"""TLS on the client's side, for connections to other brokers and for kqueue's own client."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from kqueue.base.errors import SettingError
from kqueue.base.key_stores import StoreSettings, load_key_pair, read_key_store, read_trust_store
from kqueue.config.tls_options import reason_of, use_protocols, use_suites

FileState = tuple[int, int, int] | None


class TlsClientSettings(NamedTuple):
    """The certificates that a client trusts and shows; it can be pickled.

    Attributes:
        keys: its own certificate; empty: it shows none.
        trusted: empty: the authorities of the system.
        check_host: whether the certificate must name the host that was connected to
            (``ssl.endpoint.identification.algorithm``).
    """

    keys: StoreSettings
    trusted: StoreSettings
    protocols: tuple[str, ...]
    suites: tuple[str, ...]
    check_host: bool

    @property
    def trusts(self) -> str:
        """Whom it trusts, for messages."""
        if self.trusted.is_empty:
            return "the authorities of the system: set ssl.truststore.location"
        return f"those of ssl.truststore.location={self.trusted.location or '(text in the settings)'}"

    def with_files(self) -> TlsClientSettings:
        """Return the settings with what the files of the stores have now."""
        return self._replace(keys=self.keys.with_content(), trusted=self.trusted.with_content())


def client_context(settings: TlsClientSettings) -> ssl.SSLContext:
    """Return the context that these settings ask for. Reads files.

    Raises: SettingError: a store can't be read, or what is in it does not fit together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    use_protocols(context, settings.protocols)
    context.options |= ssl.OP_NO_COMPRESSION | getattr(ssl, "OP_NO_RENEGOTIATION", 0)
    use_suites(context, settings.suites)
    context.check_hostname = settings.check_host
    if settings.trusted.is_empty:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        try:
            context.load_verify_locations(cadata=read_trust_store(settings.trusted))
        except (OSError, ValueError) as error:
            raise SettingError(f"the certificates of ssl.truststore can't be used: {reason_of(error)}") from None
    if not settings.keys.is_empty:
        try:
            load_key_pair(context, read_key_store(settings.keys))
        except (OSError, ValueError) as error:
            raise SettingError(
                f"the key and certificate of ssl.keystore can't be used: {reason_of(error)}; expected a key that "
                f"belongs to the first certificate, and its password in ssl.key.password if it is encrypted"
            ) from None
    return context


def handshake_error(error: BaseException, settings: TlsClientSettings, host: str) -> str:
    """Return why a handshake with `host` failed, and what can be done about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if "mismatch" in error.verify_message:
            return (
                f"its certificate is not one of {host}: {error.verify_message.rstrip('.')}; expected a certificate "
                f"with this name among its alternative names (ssl.endpoint.identification.algorithm= turns this off)"
            )
        if "expired" in error.verify_message or "not yet valid" in error.verify_message:
            return f"its certificate is of no use now: {error.verify_message}"
        return (
            f"its certificate is not signed by an authority that is trusted: {error.verify_message}; "
            f"trusted are {settings.trusts}"
        )
    if isinstance(error, ssl.SSLError):
        reason = reason_of(error).replace("_", " ").lower()
        if reason in ("wrong version number", "record layer failure", "packet length too long"):
            return "TLS handshake failed: it does not speak TLS there; is it a listener without TLS?"
        if "certificate required" in reason or "unknown ca" in reason or "bad certificate" in reason:
            return f"TLS handshake failed: it does not accept the certificate of ssl.keystore, or needs one: {reason}"
        return f"TLS handshake failed: {reason}"
    text = getattr(error, "strerror", None) or str(error) or "it ended the connection"
    return f"TLS handshake failed: {text}"


def file_states(settings: TlsClientSettings) -> tuple[FileState, ...]:
    """Return what changes with each file that is read; None: it can't be looked at."""
    states: list[FileState] = []
    for location in (settings.keys.location, settings.trusted.location):
        if location:
            try:
                stat = Path(location).stat()
            except OSError:
                states.append(None)
            else:
                states.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(states)
