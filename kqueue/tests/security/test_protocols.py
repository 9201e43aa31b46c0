"""Tests of `kqueue.security.protocols`."""

from kqueue.security.protocols import SecurityProtocol


def test_protocols_tell_whether_they_use_tls_and_sasl() -> None:
    assert {one.name: (one.uses_tls, one.uses_sasl) for one in SecurityProtocol} == {
        "PLAINTEXT": (False, False),
        "SSL": (True, False),
        "SASL_PLAINTEXT": (False, True),
        "SASL_SSL": (True, True),
    }
