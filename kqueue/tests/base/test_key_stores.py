from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, pkcs12

from kqueue.base.errors import SettingError
from kqueue.base.key_stores import (
    KeyPair,
    StoreSettings,
    first_certificate,
    load_key_pair,
    read_key_store,
    read_trust_store,
)
from kqueue.security.certificates import Authority, Certificate


@cache
def pair() -> Certificate:
    return Authority.create().issue("CN=broker")


def keys(**fields: str) -> StoreSettings:
    return StoreSettings("ssl.keystore", **({"type": "PEM"} | fields))


def encrypted(password: str) -> str:
    key = serialization.load_pem_private_key(pair().key.encode(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())).decode()


def in_pkcs12(password: str) -> bytes:
    key = serialization.load_pem_private_key(pair().key.encode(), None)
    certificate = x509.load_pem_x509_certificate(pair().certificate.encode())
    return pkcs12.serialize_key_and_certificates(
        b"broker", key, certificate, [certificate], BestAvailableEncryption(password.encode())
    )


def load(key_pair: KeyPair) -> None:
    load_key_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), key_pair)


def test_pem_in_the_settings_may_be_one_line() -> None:
    one_line = {
        "certificates": pair().certificate.replace("\n", " "),
        "key": pair().key.replace("\n", ""),
    }
    load(read_key_store(keys(**one_line)))


def test_pem_file_has_key_and_certificates(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("a comment\n" + pair().pem)
    key_pair = read_key_store(keys(location=str(tmp_path / "a.pem")))
    assert key_pair.key == pair().key
    assert first_certificate(key_pair.chain) == pair().certificate
    load(key_pair)


def test_settings_with_what_the_file_had_are_enough_where_it_is_not(tmp_path: Path) -> None:
    file = tmp_path / "a.pem"
    file.write_text(pair().pem)
    store = keys(location=str(file)).with_content()
    assert "PRIVATE KEY" not in repr(store)
    file.write_text(pair().certificate)
    with pytest.raises(SettingError, match="found 0 keys"):
        read_key_store(store)
    file.unlink()
    assert read_key_store(store).key == pair().key
    for empty in (keys(), keys(location=str(file)), keys(certificates="x")):
        assert empty.with_content() == empty
    with pytest.raises(SettingError, match="can't be read: No such file"):
        read_key_store(keys(location=str(file)).with_content())


def test_encrypted_key_needs_its_password_and_never_asks_the_terminal() -> None:
    store = {"certificates": pair().certificate, "key": encrypted("secret")}
    load(read_key_store(keys(**store, key_password="secret")))
    for wrong in ({"key_password": "other"}, {}):
        with pytest.raises((OSError, ValueError)):
            load(read_key_store(keys(**store, **wrong)))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_is_read_under_both_names(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "a.p12"
    file.write_bytes(in_pkcs12("secret"))
    load(read_key_store(keys(type=kind, location=str(file), password="secret")))
    trusted = StoreSettings("ssl.truststore", kind, str(file), "secret")
    assert pair().certificate in read_trust_store(trusted)


@pytest.mark.parametrize(
    ("fields", "data", "words"),
    [
        ({"type": "BCFKS"}, b"", r"ssl\.keystore\.type=BCFKS: expected PEM or PKCS12"),
        ({"type": "JKS"}, b"\xfe\xed\xfe\xed\0\0\0\2", "keytool -importkeystore -srckeystore .* -deststoretype PKCS12"),
        ({"type": "JKS"}, b"-----BEGIN CERTIFICATE-----", r"is PEM text: set ssl\.keystore\.type=PEM"),
        ({}, b"\x30\x82\xff\xff", r"is no PEM text: PKCS12 needs ssl\.keystore\.type=PKCS12"),
        ({}, b"nothing", "expected one private key and its certificate as PEM, found 0 keys and 0 certificates"),
        ({"type": "PKCS12"}, b"\x30\x82\xff\xff", "can't be opened as PKCS12"),
        ({"password": "x"}, b"", r"ssl\.key\.password is the password"),
        ({"certificates": "x"}, b"", "are both set"),
        ({"type": "PKCS12", "key": "x"}, b"", r"text in the settings needs ssl\.keystore\.type=PEM"),
    ],
)
def test_unusable_key_store_is_refused_with_the_reason(
    fields: dict[str, str], data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(SettingError, match=words):
        read_key_store(keys(**fields, location=str(tmp_path / "a")))


def test_wrong_password_of_pkcs12_is_said_without_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(in_pkcs12("secret"))
    with pytest.raises(SettingError, match="can't be opened as PKCS12") as caught:
        read_key_store(keys(type="PKCS12", location=str(tmp_path / "a"), password="my-guess"))
    assert "my-guess" not in str(caught.value)


def test_empty_trust_store_is_refused() -> None:
    with pytest.raises(SettingError, match="expected certificates of authorities, found none"):
        read_trust_store(StoreSettings("ssl.truststore", "PEM", certificates=pair().key))
