"""Kafka's properties of TLS on the client's side, which are also options of the login module of
OAUTHBEARER, for connections to the identity provider. Source: Kafka's SslConfigs, JaasOptionsUtils.
"""

from __future__ import annotations

from collections.abc import Mapping

from kqueue.base.errors import SettingError
from kqueue.base.key_stores import StoreSettings
from kqueue.base.names import did_you_mean
from kqueue.config.tls_client import TlsClientSettings
from kqueue.security import tls_config
from kqueue.security.tls_config import TLS_1_2, TLS_1_3

TLS_PROPERTIES: Mapping[str, str | None] = {
    "ssl.truststore.type": "JKS",
    "ssl.truststore.location": None,
    "ssl.truststore.password": None,
    "ssl.truststore.certificates": None,
    "ssl.keystore.type": "JKS",
    "ssl.keystore.location": None,
    "ssl.keystore.password": None,
    "ssl.keystore.certificate.chain": None,
    "ssl.keystore.key": None,
    "ssl.key.password": None,
    "ssl.enabled.protocols": f"{TLS_1_2},{TLS_1_3}",
    "ssl.cipher.suites": "",
    "ssl.endpoint.identification.algorithm": "https",
}
"""The properties with their defaults."""
TLS_WITHOUT_EFFECT = tuple(row.name for row in tls_config.SETTINGS if row.without_effect)
"""Java's own, which are accepted."""


def tls_client_settings(given: Mapping[str, str | None]) -> TlsClientSettings:
    """Return what these properties say; those that are no properties of TLS are ignored.

    Raises: SettingError: a wrong value, which is not shown.
    """
    values = {name: given.get(name, default) for name, default in TLS_PROPERTIES.items()}
    algorithm = values["ssl.endpoint.identification.algorithm"] or ""
    if algorithm.lower() not in ("https", ""):
        raise SettingError(f"ssl.endpoint.identification.algorithm={algorithm}: expected https, or nothing")
    protocols = _listed(values["ssl.enabled.protocols"])
    if not protocols or not {*protocols} <= {TLS_1_2, TLS_1_3}:
        raise SettingError(f"ssl.enabled.protocols={','.join(protocols)}: expected {TLS_1_2}, {TLS_1_3}, or both")
    keys = StoreSettings(
        "ssl.keystore",
        values["ssl.keystore.type"] or "",
        values["ssl.keystore.location"],
        values["ssl.keystore.password"],
        values["ssl.keystore.certificate.chain"],
        values["ssl.keystore.key"],
        values["ssl.key.password"],
    )
    trusted = StoreSettings(
        "ssl.truststore",
        values["ssl.truststore.type"] or "",
        values["ssl.truststore.location"],
        values["ssl.truststore.password"],
        values["ssl.truststore.certificates"],
    )
    return TlsClientSettings(keys, trusted, protocols, _listed(values["ssl.cipher.suites"]), bool(algorithm))


def tls_options(options: Mapping[str, str], setting: str) -> TlsClientSettings:
    """Return what the ``ssl.`` options of a login module say.

    Args: setting: the module's, for messages. Raises: SettingError: also of an unknown one.
    """
    for name in options:
        if name.startswith("ssl.") and name not in (*TLS_PROPERTIES, *TLS_WITHOUT_EFFECT):
            raise SettingError(f"{setting}: no option is called {name!r}{did_you_mean(name, TLS_PROPERTIES)}")
    try:
        return tls_client_settings(options)
    except SettingError as error:
        raise SettingError(f"{setting}: option {error}") from None


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
