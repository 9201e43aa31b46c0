from __future__ import annotations

import contextlib
import ipaddress
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.certificates import Authority
from kqueue.security.x500_names import alternative_names_of, end_of, subject_of
from kqueue.tests.tables import for_each

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate_of(subject: x509.Name, end: datetime | None = None) -> bytes:
    end = end or datetime.now(UTC) + timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(end - timedelta(days=1)).not_valid_after(end)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def name(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(*part) for part in parts])


@for_each(
    "subject, text",
    [
        (
            name((NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "x"), (NameOID.COMMON_NAME, "ann")),
            "CN=ann,O=x,C=DE",
        ),
        (name((NameOID.COMMON_NAME, ' a,b+c"d\\e<f>g;h=i#j ')), 'CN=\\ a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i\\#j\\ '),
        (name((NameOID.COMMON_NAME, "größe")), "CN=größe"),
        (name((NameOID.EMAIL_ADDRESS, "a@b"), (NameOID.COMMON_NAME, "x")), "CN=x,1.2.840.113549.1.9.1=#1603614062"),
        (name((NameOID.STATE_OR_PROVINCE_NAME, "B"), (NameOID.USER_ID, "7")), "UID=7,ST=B"),
        (
            x509.Name(
                [
                    x509.RelativeDistinguishedName(
                        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
                    )
                ]
            ),
            "CN=a+UID=b",
        ),
        (
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ab", _ASN1Type.UniversalString)]),
            "CN=#1c080000006100000062",
        ),
        (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a", _ASN1Type.BMPString)]), "CN=\\00a"),
        (x509.Name([]), ""),
    ],
)
def test_subject_is_written_as_java_does(subject: x509.Name, text: str) -> None:
    assert subject_of(certificate_of(subject)) == text


def test_alternative_names_are_compared_as_bytes() -> None:
    authority = Authority.create()
    few = ssl.PEM_cert_to_DER_cert(authority.issue("x", hosts=["a"]).certificate)
    more = ssl.PEM_cert_to_DER_cert(authority.issue("x", hosts=["b", "a", "127.0.0.1"]).certificate)
    assert alternative_names_of(few) < alternative_names_of(more)
    assert alternative_names_of(more) == {
        b"\x82\x01a",
        b"\x82\x01b",
        b"\x87\x04" + ipaddress.ip_address("127.0.0.1").packed,
    }
    assert alternative_names_of(ssl.PEM_cert_to_DER_cert(authority.issue("x").certificate)) == frozenset()


WHOLE = certificate_of(name((NameOID.COMMON_NAME, "ann")))


@given(st.binary(max_size=200) | st.integers(0, len(WHOLE)).map(lambda end: WHOLE[:end]))
def test_other_bytes_are_refused_without_another_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        subject_of(data)
    with contextlib.suppress(ValueError):
        alternative_names_of(data)


@for_each("year", [1951, 1999, 2000, 2049, 2050, 9999])
def test_end_of_validity(year: int) -> None:
    """Years to 2049 are written with two digits, later ones with four."""
    end = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert end_of(certificate_of(name((NameOID.COMMON_NAME, "x")), end)) == end


def test_end_of_what_is_no_certificate() -> None:
    with pytest.raises(ValueError, match="no certificate"):
        end_of(b"")
