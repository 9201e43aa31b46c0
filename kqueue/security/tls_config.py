"""Settings of TLS (``ssl.*``), for all listeners or for one. Source: Kafka's SslConfigs,
BrokerSecurityConfigs.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import SettingError
from kqueue.base.settings import (
    ANY,
    Prefix,
    Scope,
    Setting,
    SettingType,
    UpdateMode,
    Validator,
    at_least,
    one_of,
)

TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
CLIENT_AUTH = "ssl.client.auth"
_OUTDATED = frozenset({"SSL", "SSLv2", "SSLv2Hello", "SSLv3", "TLS", "TLSv1", "TLSv1.1"})
_JAVA = "Accepted and shown for Kafka's tools; has no effect in kqueue, which has no Java security providers."


def _are_protocols(value: list[str]) -> bool:
    outdated = sorted(_OUTDATED.intersection(value))
    if outdated:
        raise SettingError(
            f"ssl.enabled.protocols: {', '.join(outdated)} is not secure, expected {TLS_1_2} or {TLS_1_3}"
        )
    return bool(value) and all(protocol in (TLS_1_2, TLS_1_3) for protocol in value)


def _are_rules(value: str) -> bool:
    from kqueue.security.principal_mapping import PrincipalMapper  # on use: few have rules

    PrincipalMapper(value)
    return True


def _row(
    name: str, kind: SettingType, default: Any, doc: str, valid: Validator = ANY, *, without_effect: bool = False
) -> Setting:
    return Setting(
        name,
        kind,
        default,
        valid,
        Scope.BROKER,
        doc,
        without_effect=without_effect,
        dynamic=UpdateMode.PER_BROKER,
        prefix=Prefix.LISTENER,
    )


KEY_SETTINGS: tuple[Setting, ...] = (
    _row(
        "ssl.keystore.type",
        SettingType.STRING,
        "JKS",
        "Format of the key store with the broker's certificate: PEM, or PKCS12 (which Java reads under the name JKS "
        "too). A key store in the old format JKS must be converted.",
    ),
    _row(
        "ssl.keystore.location",
        SettingType.STRING,
        None,
        "File of the key store. With ssl.keystore.type=PEM: the private key, followed by its certificate and those of "
        "the authorities between. New connections use a changed file within seconds.",
    ),
    _row("ssl.keystore.password", SettingType.PASSWORD, None, "Password of a PKCS12 key store."),
    _row(
        "ssl.keystore.certificate.chain",
        SettingType.PASSWORD,
        None,
        "With ssl.keystore.type=PEM, in place of a file: the certificate, and those of the authorities between, as "
        "PEM text.",
    ),
    _row(
        "ssl.keystore.key",
        SettingType.PASSWORD,
        None,
        "With ssl.keystore.type=PEM, in place of a file: the private key as PEM text.",
    ),
    _row("ssl.key.password", SettingType.PASSWORD, None, "Password of the private key, if it is encrypted."),
    _row(
        "ssl.truststore.type",
        SettingType.STRING,
        "JKS",
        "Format of the trust store with the certificates of authorities: PEM, or PKCS12.",
    ),
    _row(
        "ssl.truststore.location",
        SettingType.STRING,
        None,
        "File of the trust store. Unset, as well as ssl.truststore.certificates: the system's authorities are trusted.",
    ),
    _row("ssl.truststore.password", SettingType.PASSWORD, None, "Password of a PKCS12 trust store."),
    _row(
        "ssl.truststore.certificates",
        SettingType.PASSWORD,
        None,
        "With ssl.truststore.type=PEM, in place of a file: the certificates of authorities as PEM text.",
    ),
)
"""The settings that say where certificates and keys come from."""

CONNECTION_SETTINGS: tuple[Setting, ...] = (
    _row(
        CLIENT_AUTH,
        SettingType.STRING,
        "none",
        "Whether clients show a certificate that an authority of the trust store signed. requested: those that have "
        "one. Listeners with SASL_SSL take it only with their prefix.",
        one_of("required", "requested", "none"),
    ),
    _row(
        "ssl.enabled.protocols",
        SettingType.LIST,
        [TLS_1_2, TLS_1_3],
        "Versions of TLS.",
        Validator(f"{TLS_1_2}, {TLS_1_3}, or both", _are_protocols),
    ),
    _row(
        "ssl.cipher.suites",
        SettingType.LIST,
        [],
        "Cipher suites by their standard names, as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; those of OpenSSL work too. "
        "Empty: OpenSSL's default.",
    ),
    _row(
        "ssl.endpoint.identification.algorithm",
        SettingType.STRING,
        "https",
        "Whether this broker checks that the certificates of other brokers are of the hosts that it connects to: https "
        "or, empty, not. Clients have a setting of their own.",
        one_of("https", ""),
    ),
    _row("ssl.protocol", SettingType.STRING, TLS_1_3, f"See ssl.enabled.protocols. {_JAVA}", without_effect=True),
    _row("ssl.provider", SettingType.STRING, None, _JAVA, without_effect=True),
    _row("ssl.keymanager.algorithm", SettingType.STRING, "SunX509", _JAVA, without_effect=True),
    _row("ssl.trustmanager.algorithm", SettingType.STRING, "PKIX", _JAVA, without_effect=True),
    _row("ssl.secure.random.implementation", SettingType.STRING, None, _JAVA, without_effect=True),
)
"""The settings that say how connections are made."""

OWN_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "ssl.principal.mapping.rules",
        SettingType.STRING,
        "DEFAULT",
        Validator("DEFAULT and RULE:pattern/replacement/ with an L or U after it, comma separated", _are_rules),
        Scope.BROKER,
        "Rules that make a user's name of a certificate's distinguished name; the first whose pattern matches counts. "
        "DEFAULT: the distinguished name itself. A certificate that no rule matches is refused.",
        prefix=Prefix.LISTENER,
    ),
    Setting(
        "ssl.allow.dn.changes",
        SettingType.BOOLEAN,
        False,
        ANY,
        Scope.BROKER,
        "Whether a new certificate of a running broker may have another distinguished name.",
    ),
    Setting(
        "ssl.allow.san.changes",
        SettingType.BOOLEAN,
        False,
        ANY,
        Scope.BROKER,
        "Whether a new certificate of a running broker may lack alternative names of the one before.",
    ),
    Setting(
        "kqueue.tls.handshake.timeout.ms",
        SettingType.LONG,
        10_000,
        at_least(1),
        Scope.BROKER,
        "Close a connection whose TLS handshake takes longer.",
    ),
    Setting(
        "kqueue.tls.max.handshakes",
        SettingType.INT,
        1000,
        at_least(1),
        Scope.BROKER,
        "Maximum number of TLS handshakes under way on one listener. One more closes the oldest that waits for its "
        "client, of the address that has most.",
    ),
    Setting(
        "kqueue.tls.reload.interval.ms",
        SettingType.LONG,
        5_000,
        at_least(1),
        Scope.BROKER,
        "How often files of key stores and trust stores are looked at for changes.",
    ),
)

SETTINGS: tuple[Setting, ...] = KEY_SETTINGS + CONNECTION_SETTINGS + OWN_SETTINGS
"""All settings of TLS."""
