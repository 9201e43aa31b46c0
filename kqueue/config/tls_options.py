"""Options that TLS contexts of both sides share: versions of TLS, and cipher suites."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from kqueue.base.errors import SettingError
from kqueue.security.cipher_suites import TLS_1_3_SUITES, openssl_name
from kqueue.security.tls_config import TLS_1_2, TLS_1_3

_VERSIONS = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}


def use_protocols(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Let a context use these versions of TLS only."""
    context.minimum_version = min(_VERSIONS[name] for name in names)
    context.maximum_version = max(_VERSIONS[name] for name in names)


def use_suites(context: ssl.SSLContext, names: Sequence[str]) -> frozenset[str]:
    """Let a context offer these suites only; returns them by OpenSSL's names."""
    if not names:
        return frozenset()
    older = [openssl_name(name) for name in names if name not in TLS_1_3_SUITES]
    newer = TLS_1_3_SUITES.intersection(names)
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise SettingError(f"ssl.cipher.suites={','.join(names)}: OpenSSL has none of these") from None
    elif context.minimum_version < ssl.TLSVersion.TLSv1_3:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if not newer:
        if context.minimum_version == ssl.TLSVersion.TLSv1_3:
            raise SettingError(f"ssl.cipher.suites={','.join(names)} has no suite of TLSv1.3")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif context.maximum_version < ssl.TLSVersion.TLSv1_3 and not older:
        raise SettingError(f"ssl.cipher.suites={','.join(names)} has no suite of {TLS_1_2}")
    return newer.union(older)


def reason_of(error: Exception) -> str:
    """Return what OpenSSL says of an error, without the place in its source."""
    return (error.reason or str(error)) if isinstance(error, ssl.SSLError) else str(error)
