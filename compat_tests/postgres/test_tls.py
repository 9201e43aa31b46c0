"""TLS and passwords: libpq's parameters in the address, and `kqueue.postgres.password`."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from compat_tests.postgres.server import Server
from kqueue.base.errors import StorageFailed
from kqueue.metadata.postgres import PostgresStore


def certificate() -> tuple[bytes, bytes]:
    """A certificate of 127.0.0.1 that is its own authority, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "postgres")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    kind, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return built.public_bytes(encoding), key.private_bytes(encoding, kind, no_password)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls") / "authority.pem"


@pytest.fixture(scope="module")
def secured(authority: Path) -> Iterator[Server]:
    """A server that lets the user `broker` in by TLS and a password only."""
    server = Server()
    pem, key = certificate()
    authority.write_bytes(pem)
    server.add_options(
        ssl="on",
        ssl_cert_file=str(server.give("server.pem", pem)),
        ssl_key_file=str(server.give("server.key", key)),
        hba_file=str(
            server.give(
                "hba.conf",
                b"hostssl all broker 127.0.0.1/32 scram-sha-256\nhost all kqueue 127.0.0.1/32 trust\n",
            )
        ),
    )
    with server:
        server.run("CREATE USER broker PASSWORD 'broker-secret'")
        server.run("GRANT CREATE ON DATABASE postgres TO broker")
        yield server


def address(server: Server, *parameters: str) -> str:
    return f"postgresql://broker@127.0.0.1:{server.port}/postgres?{'&'.join(parameters)}"


def test_a_store_by_tls_with_a_password(secured: Server, authority: Path) -> None:
    text = address(secured, "sslmode=verify-full", f"sslrootcert={authority}")
    with closing(PostgresStore(text, password="broker-secret")) as store:
        store.commit({}, {"/a": b"1"}, [])
        query = "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'broker'"
        assert {ssl for (ssl,) in secured.run(query)} == {True}
        with closing(PostgresStore(text, password="broker-secret")) as other:
            assert other.read("/")["/a"].value == b"1"


def test_a_certificate_of_another_authority_is_refused(secured: Server, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(certificate()[0])
    with pytest.raises(StorageFailed, match="certificate verify failed"):
        PostgresStore(
            address(secured, "sslmode=verify-full", f"sslrootcert={other}"), password="broker-secret", timeout_s=0.5
        )


def test_a_wrong_password_is_refused_and_not_shown(secured: Server) -> None:
    with pytest.raises(StorageFailed, match="password authentication failed") as caught:
        PostgresStore(address(secured, "sslmode=require"), password="wrong-secret", timeout_s=0.5)
    assert "wrong-secret" not in str(caught.value)


def test_without_tls_the_server_refuses(secured: Server) -> None:
    with pytest.raises(StorageFailed, match="no encryption"):
        PostgresStore(address(secured, "sslmode=disable"), password="broker-secret", timeout_s=0.5)
