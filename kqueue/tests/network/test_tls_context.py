from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509

import kqueue
from kqueue.app import Server
from kqueue.base.config import Config
from kqueue.base.errors import InvalidRequest, SettingError
from kqueue.config.catalog import CATALOG
from kqueue.config.listeners import parse_listeners
from kqueue.network import tls_context
from kqueue.network.tls_context import TlsContext, TlsSettings, build_context
from kqueue.security.certificates import Authority, Certificate, write_private
from kqueue.tests.network.harness import serving, until
from kqueue.tests.network.tls_harness import (
    NAMES,
    authority,
    broker_pair,
    client_context,
    connect_tls,
    handshakes,
    run,
    serving_tls,
)
from kqueue.tests.tables import for_each
from kqueue.tests.waits import eventually

PAIR = {"ssl.keystore.certificate.chain": broker_pair().certificate, "ssl.keystore.key": broker_pair().key}


@for_each(
    "settings, words",
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


@for_each(
    "values, low, high, suites",
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


@for_each(
    "values, words",
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
def test_contradicting_tls_settings_are_refused(values: dict[str, str], words: str) -> None:
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


# --- new certificates


def serial_of(server: Server, context: ssl.SSLContext | None = None) -> int:
    """Return the serial number of the certificate that a new connection is shown."""
    address = server.bound("SSL")
    with (
        socket.create_connection(address) as plain,
        (context or client_context()).wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        return x509.load_der_x509_certificate(tls.getpeercert(True) or b"").serial_number


def serial(pair: Certificate) -> int:
    return x509.load_pem_x509_certificate(pair.certificate.encode()).serial_number


async def shown(server: Server) -> int:
    return await asyncio.to_thread(serial_of, server)


def test_changed_file_is_used_by_new_connections_and_a_broken_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broker.pem"
    new = authority().issue("CN=broker", hosts=NAMES)

    async def test() -> None:
        write_private(file, broker_pair().pem)
        async with serving_tls(ssl_keystore_location=str(file), kqueue_tls_reload_interval_ms=20) as server:
            client = await connect_tls(server)
            assert await shown(server) == serial(broker_pair())
            write_private(file, "-----BEGIN CERTIFICATE-----\nbroken")
            await until(lambda: "the new certificate is not used" in caplog.text)
            assert await shown(server) == serial(broker_pair())
            await asyncio.sleep(0.1)
            assert caplog.text.count("the new certificate is not used") == 1
            write_private(file, new.pem)
            await until(lambda: "listener SSL uses its new key store or trust store" in caplog.text)
            assert await shown(server) == serial(new)
            await client.ask("ApiVersions", 0)
            await client.close()

    with caplog.at_level(logging.INFO, "kqueue.server"):
        run(test)


def test_certificate_near_its_end_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "broker.pem"
    soon, late = authority().issue("CN=broker", hosts=NAMES, days=13), authority().issue("CN=broker", hosts=NAMES)

    async def test() -> None:
        write_private(file, soon.pem)
        async with serving_tls(ssl_keystore_location=str(file), kqueue_tls_reload_interval_ms=20):
            await until(lambda: "listener SSL: its certificate expires at" in caplog.text)
            await asyncio.sleep(0.1)
            assert caplog.text.count("listener SSL: its certificate expires at") == 1
            write_private(file, authority().issue("CN=broker", hosts=NAMES, days=-1).pem)
            await until(lambda: "listener SSL: its certificate expired at" in caplog.text)
            write_private(file, late.pem)
            await until(lambda: caplog.text.count("listener SSL uses its new key store") == 2)
            await asyncio.sleep(0.1)

    with caplog.at_level(logging.INFO, "kqueue.server"):
        run(test)
    assert caplog.text.count("its certificate exp") == 2


@pytest.mark.parametrize(
    ("name", "hosts", "allow", "words"),
    [
        ("CN=other", NAMES, {}, "the new certificate is of CN=other, expected CN=broker as before"),
        ("CN=broker", NAMES[:1], {}, "lacks alternative names of the one before"),
        ("CN=broker", (*NAMES, "more"), {}, None),
        ("CN=other", NAMES[:1], {"ssl_allow_dn_changes": True, "ssl_allow_san_changes": True}, None),
    ],
)
def test_certificate_of_another_broker_is_refused_unless_allowed(
    name: str,
    hosts: tuple[str, ...],
    allow: dict[str, bool],
    words: str | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "broker.pem"
    new = authority().issue(name, hosts=hosts)

    async def test() -> None:
        write_private(file, broker_pair().pem)
        async with serving_tls(ssl_keystore_location=str(file), **allow) as server:
            write_private(file, new.pem)
            with pytest.raises(SettingError, match=words) if words else contextlib.nullcontext():
                server.reload_certificates()
            assert await shown(server) == serial(broker_pair() if words else new)

    run(test)


def test_key_store_changes_at_run_time_for_one_listener(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pem", tmp_path / "b.pem"
    new = authority().issue("CN=broker", hosts=NAMES)
    write_private(first, broker_pair().pem)
    write_private(second, new.pem)
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", "ssl.keystore.location": str(first)}
    with kqueue.Broker(settings=settings) as broker:
        assert serial_of(broker._server) == serial(broker_pair())
        with pytest.raises(InvalidRequest, match="can't be read"):
            alter(broker, {"listener.name.ssl.ssl.keystore.location": "/nowhere"})
        with pytest.raises(
            InvalidRequest,
            match="These security configs can be dynamically updated only per-listener using the listener prefix",
        ):
            alter(broker, {"ssl.keystore.location": str(second)})
        assert serial_of(broker._server) == serial(broker_pair())
        alter(broker, {"listener.name.ssl.ssl.keystore.location": str(second)})
        wait_for(broker, new)
        broker.restart()
        wait_for(broker, new)


def test_a_key_store_is_never_opened_on_the_brokers_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "b.pem"
    write_private(store, authority().issue("CN=broker", hosts=NAMES).pem)
    threads: list[int] = []

    def watched(settings: TlsSettings) -> TlsContext:
        threads.append(threading.get_ident())
        return build_context(settings)

    with kqueue.Broker(settings={"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", **PAIR}) as broker:
        monkeypatch.setattr(tls_context, "build_context", watched)
        name = "listener.name.ssl.ssl.keystore.location"
        with pytest.raises(InvalidRequest, match="both set"):
            alter(broker, {name: str(store)})
        assert threads
        assert loop_thread(broker) not in threads


def loop_thread(broker: kqueue.Broker) -> int | None:
    async def own() -> int:
        return threading.get_ident()

    return broker._call(own)


def wait_for(broker: kqueue.Broker, pair: Certificate) -> None:
    """Wait until new connections are shown this certificate."""
    eventually(lambda: serial_of(broker._server) == serial(pair), f"the certificate {serial(pair)}")


def alter(broker: kqueue.Broker, settings: dict[str, str]) -> None:
    broker.alter_config(**{name.replace(".", "_"): value for name, value in settings.items()})


def test_settings_that_name_no_file_change_at_run_time_too() -> None:
    new = authority().issue("CN=broker", hosts=NAMES)
    prefix = "listener.name.ssl.ssl.keystore"
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM", **PAIR}
    with kqueue.Broker(settings=settings) as broker:
        with pytest.raises(InvalidRequest, match="KEY_VALUES_MISMATCH"):
            alter(broker, {f"{prefix}.certificate.chain": new.certificate})
        alter(broker, {f"{prefix}.certificate.chain": new.certificate, f"{prefix}.key": new.key})
        wait_for(broker, new)
