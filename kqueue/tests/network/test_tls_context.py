from __future__ import annotations

import ssl

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.config.listeners import parse_listeners
from kqueue.network.tls_context import TlsSettings, build_context
from kqueue.security.certificates import Authority
from kqueue.tests.network.harness import serving, until
from kqueue.tests.network.tls_harness import (
    broker_pair,
    client_context,
    connect_tls,
    handshakes,
    run,
    serving_tls,
)

PAIR = {"ssl.keystore.certificate.chain": broker_pair().certificate, "ssl.keystore.key": broker_pair().key}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": "SSL://127.0.0.1:0"}, "listener SSL needs a certificate"),
        (
            {"ssl_keystore_type": "PEM", "ssl_keystore_location": "/nowhere.pem"},
            "listener SSL: ssl.keystore.location=/nowhere.pem can't be read: No such file or directory",
        ),
    ],
)
def test_broker_without_a_usable_certificate_does_not_start(settings: dict[str, str], words: str) -> None:
    async def test() -> None:
        async with serving(**({"listeners": "SSL://127.0.0.1:0"} | settings)):
            pass

    with pytest.raises(SettingError, match=words):
        run(test)


def settings_of(**values: str) -> TlsSettings:
    given = {name.replace("_", "."): value for name, value in values.items()}
    config = Config(CATALOG, {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM"} | PAIR | given)
    return TlsSettings.of(parse_listeners(config)[0], config)


def test_setting_of_the_listener_takes_precedence() -> None:
    settings = settings_of(**{"listener.name.ssl.ssl.client.auth": "required", "ssl.truststore.location": "/a"})
    assert settings.client_auth == "required"
    assert settings.trusted.location == "/a"
    assert settings_of(ssl_client_auth="requested").client_auth == "requested"


@pytest.mark.parametrize(
    ("values", "low", "high", "suites"),
    [
        ({}, "TLSv1_2", "TLSv1_3", set()),
        ({"ssl_enabled_protocols": "TLSv1.3"}, "TLSv1_3", "TLSv1_3", set()),
        ({"ssl_enabled_protocols": "TLSv1.2"}, "TLSv1_2", "TLSv1_2", set()),
        (
            {"ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
            "TLSv1_2",
            "TLSv1_2",
            {"ECDHE-ECDSA-AES128-GCM-SHA256"},
        ),
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1_3", "TLSv1_3", {"TLS_AES_256_GCM_SHA384"}),
    ],
)
def test_protocols_and_suites(values: dict[str, str], low: str, high: str, suites: set[str]) -> None:
    built = build_context(settings_of(**values))
    assert built.context.minimum_version == ssl.TLSVersion[low]
    assert built.context.maximum_version == ssl.TLSVersion[high]
    assert built.suites == suites
    assert built.context.options & ssl.OP_NO_COMPRESSION
    assert built.context.options & ssl.OP_NO_RENEGOTIATION


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ssl_cipher_suites": "NONE_OF_THEM"}, "OpenSSL has none of these"),
        (
            {"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256", "ssl_enabled_protocols": "TLSv1.2"},
            "has no suite of TLSv1.2",
        ),
        (
            {"ssl_cipher_suites": "ECDHE-RSA-AES128-GCM-SHA256", "ssl_enabled_protocols": "TLSv1.3"},
            "has no suite of TLSv1.3",
        ),
        ({"ssl_keystore_key": Authority.create().pair.key}, "can't be used: KEY_VALUES_MISMATCH"),
        (
            {"ssl_client_auth": "required", "ssl_truststore_type": "PEM", "ssl_truststore_certificates": "x"},
            "listener SSL: ssl.truststore in the settings: expected certificates of authorities, found none",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(values: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        build_context(settings_of(**values))


def test_a_client_that_chooses_another_suite_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Of TLS 1.3 OpenSSL offers all suites, so the choice is checked."""

    async def test() -> None:
        async with serving_tls(ssl_cipher_suites="TLS_CHACHA20_POLY1305_SHA256") as server:
            client = await connect_tls(server)
            assert await client.closed() == b""
            await client.close()

    run(test)
    assert "which ssl.cipher.suites does not name" in caplog.text


def test_outdated_client_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        context = client_context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        async with serving_tls() as server:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect_tls(server, context)
            await until(lambda: handshakes(server) == 0)

    run(test)
    assert "its TLS handshake failed: unsupported protocol" in caplog.text
