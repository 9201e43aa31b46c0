from __future__ import annotations

import ssl

from cryptography import x509

from kqueue.embedded.development_certificates import DevelopmentCertificates


def test_files_are_private_and_removed_with_their_owner() -> None:
    certificates = DevelopmentCertificates()
    folder = certificates.folder
    file = certificates.user_file("CN=ann,O=x")
    assert certificates.user_file("CN=ann,O=x") == file
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    ssl.create_default_context(cafile=certificates.authority_file).load_cert_chain(file)
    del certificates
    assert not folder.exists()


def test_renewed_certificate_has_the_same_names() -> None:
    certificates = DevelopmentCertificates(["a.example.com"])
    issued = []
    for days in (-1, 1):
        certificates.renew_broker(days)
        issued.append(x509.load_pem_x509_certificate((certificates.folder / "broker-0.pem").read_bytes()))
    old, new = issued
    assert old.serial_number != new.serial_number
    assert old.subject == new.subject
    [names, others] = [one.extensions.get_extension_for_class(x509.SubjectAlternativeName) for one in issued]
    assert names == others
