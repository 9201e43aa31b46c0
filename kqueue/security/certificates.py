"""A development certificate authority: certificates of brokers and clients, as PEM.

For tests, trials and small installations. Keys are of the curve P-256. The package `cryptography`
is imported on use.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kqueue.base.clock import wall_ms
from kqueue.base.errors import SettingError
from kqueue.base.extras import install_hint

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 3650
DAYS = 365
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_KEEP_BEFORE = timedelta(hours=1)
"""Certificates are valid from a while ago, for clients whose clocks are slow."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key as PEM text; `key` without a password."""

    certificate: str
    key: str

    @property
    def pem(self) -> str:
        """Key and certificate, as `ssl.keystore.location` has them."""
        return self.key + self.certificate


class Authority:
    """Signs certificates of brokers and clients.

    `certificate`: what those trust who check them.
    """

    def __init__(self, pair: Certificate) -> None:
        """Raises SettingError: it is no certificate with its key, or `cryptography` is missing."""
        _require()
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            self._certificate: Any = x509.load_pem_x509_certificate(pair.certificate.encode())
            self._key: Any = load_pem_private_key(pair.key.encode(), None)
        except (ValueError, TypeError) as error:
            raise SettingError(f"expected a certificate and its unencrypted key as PEM: {error}") from None
        self.pair = pair

    @classmethod
    def create(cls, name: str = "CN=kqueue development CA", days: float = AUTHORITY_DAYS) -> Authority:
        """Return a new authority. Raises SettingError: see `issue`."""
        _require()
        key = _new_key()
        subject = _name(name)
        return cls(_signed(_builder(subject, key, days, is_authority=True), subject, key, key))

    @property
    def certificate(self) -> str:
        """Its certificate as PEM text."""
        return self.pair.certificate

    def issue(
        self, name: str, *, hosts: Sequence[str] = (), days: float = DAYS, starts_in: timedelta = -_KEEP_BEFORE
    ) -> Certificate:
        """Return a new certificate that servers and clients can use.

        Args:
            name: distinguished name, the most specific part first: ``CN=ann,O=example``. A name
                without ``=`` is the CN.
            hosts: host names and addresses of a server.
            days: until it expires; negative: it has expired.
        Raises: SettingError: the name is malformed.
        """
        from cryptography import x509

        key = _new_key()
        builder = _builder(_name(name), key, days, is_authority=False, starts_in=starts_in)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative_name(host) for host in hosts]), critical=False
            )
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        )
        return _signed(builder, self._certificate.subject, key, self._key)


def write_private(path: Path, text: str) -> None:
    """Write a file that this user alone can read, in one step: a reader sees the old one or this.

    Raises: OSError.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.replace(path)


def _require() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise SettingError(f"certificates need the package cryptography: {install_hint('security')}") from None


def _now() -> datetime:
    """Return the machine's time, as an instance that cryptography accepts.

    cryptography keeps the class that `datetime.datetime` was at its first use. Where that was in a
    test frozen by freezegun, it is freezegun's subclass, of which instances are always accepted.
    """
    freezegun = sys.modules.get("freezegun.api")
    kind: type[datetime] = datetime if freezegun is None else freezegun.FakeDatetime
    return kind.fromtimestamp(wall_ms() // 1000, UTC)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: x509.Name,
    key: EllipticCurvePrivateKey,
    days: float,
    *,
    is_authority: bool,
    starts_in: timedelta = -_KEEP_BEFORE,
) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    now = _now()
    ends = now + timedelta(days=days)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now + starts_in, ends - timedelta(days=1)))
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    usages = ["key_cert_sign", "crl_sign"] if is_authority else ["digital_signature", "key_encipherment"]
    names = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"]
    names += ["key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
    builder = builder.add_extension(x509.KeyUsage(**{name: name in usages for name in names}), critical=True)
    if not is_authority:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder


def _signed(builder: x509.CertificateBuilder, issuer: x509.Name, key: Any, signer: Any) -> Certificate:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    certificate = builder.issuer_name(issuer).sign(signer, hashes.SHA256())
    return Certificate(
        certificate.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def as_name(text: str) -> str:
    """Return a distinguished name; a text without ``=`` is its CN."""
    return text if "=" in text else f"CN={text}"


def _name(text: str) -> x509.Name:
    from cryptography import x509

    try:
        if "=" not in text:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
        return x509.Name.from_rfc4514_string(text)
    except ValueError as error:
        raise SettingError(f"expected a name as CN=ann,O=example, found {text!r}: {error}") from None


def _alternative_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
