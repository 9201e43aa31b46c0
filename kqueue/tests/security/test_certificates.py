from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from kqueue.base.errors import SettingError
from kqueue.security.certificates import Authority, Certificate, write_private
from kqueue.tests.tables import for_each


def test_issued_certificate_has_name_hosts_and_days() -> None:
    issued = Authority.create().issue("CN=broker,O=x", hosts=["localhost", "127.0.0.1", "::1"], days=10)
    certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
    assert certificate.subject.rfc4514_string() == "CN=broker,O=x"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert 9 < (certificate.not_valid_after_utc - datetime.now(UTC)).days + 1 <= 10


def test_expired_certificate_is_issued_on_request() -> None:
    issued = Authority.create().issue("ann", days=-1)
    certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
    assert certificate.not_valid_before_utc < certificate.not_valid_after_utc < datetime.now(UTC)


def test_authority_is_loaded_again(tmp_path: Path) -> None:
    first = Authority.create()
    again = Authority(Certificate(first.certificate, first.pair.key))
    context = ssl.create_default_context(cadata=first.certificate)
    assert len(context.get_ca_certs()) == 1
    issued = x509.load_pem_x509_certificate(again.issue("ann").certificate.encode())
    issued.verify_directly_issued_by(x509.load_pem_x509_certificate(first.certificate.encode()))


@for_each("name", ["CN=", "CN=a,,", "=x"])
def test_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="expected a name as CN=ann,O=example"):
        Authority.create(name)


def test_private_file_is_replaced_and_readable_by_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
