"""TLS contexts of clients; handshakes with them: `test_peer_handshake`."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.base.key_stores import StoreSettings
from kqueue.config.tls_client import TlsClientSettings, client_context, file_states, handshake_error
from kqueue.security.certificates import Authority, write_private

NO_KEYS, NO_TRUST = StoreSettings("ssl.keystore", "PEM"), StoreSettings("ssl.truststore", "PEM")


def settings(trusted: StoreSettings = NO_TRUST, keys: StoreSettings = NO_KEYS, check: bool = True) -> TlsClientSettings:
    return TlsClientSettings(keys, trusted, ("TLSv1.2", "TLSv1.3"), (), check)


def test_certificates_and_names_are_checked(tmp_path: Path) -> None:
    write_private(tmp_path / "ca.pem", Authority.create().certificate)
    trusted = NO_TRUST._replace(location=str(tmp_path / "ca.pem"))
    context = client_context(settings(trusted))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1
    unnamed = client_context(settings(trusted, check=False))
    assert (unnamed.verify_mode, unnamed.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_stores_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    with pytest.raises(SettingError, match=r"ssl\.truststore\.location=.*missing.pem can't be read"):
        client_context(settings(NO_TRUST._replace(location=missing)))
    write_private(tmp_path / "bad.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(SettingError, match=r"the certificates of ssl\.truststore can't be used"):
        client_context(settings(NO_TRUST._replace(location=str(tmp_path / "bad.pem"))))
    one, other = Authority.create().issue("CN=a"), Authority.create().issue("CN=b")
    mixed = NO_KEYS._replace(certificates=one.pem, key=other.pem)
    with pytest.raises(SettingError, match=r"ssl\.keystore"):
        client_context(settings(keys=mixed))


def test_settings_can_be_pickled_and_changes_of_files_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    asked = settings(NO_TRUST._replace(location=str(path)))
    assert pickle.loads(pickle.dumps(asked)) == asked
    assert file_states(asked) == (None,)
    path.write_text("x")
    assert file_states(asked) != (None,)


def test_reasons_say_what_to_do() -> None:
    refused = ssl.SSLCertVerificationError("x")
    refused.verify_message = "self-signed certificate in certificate chain"
    assert "set ssl.truststore.location" in handshake_error(refused, settings(), "kafka.example")
    assert "it ended the connection" in handshake_error(ConnectionResetError(), settings(), "kafka.example")
