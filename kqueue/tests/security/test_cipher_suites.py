from __future__ import annotations

import ssl

from kqueue.security.cipher_suites import TLS_1_3_SUITES, openssl_name
from kqueue.tests.tables import for_each


@for_each(
    "name, openssl",
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("TLS_UNKNOWN_WITH_AES_128_GCM_SHA256", "TLS_UNKNOWN_WITH_AES_128_GCM_SHA256"),
    ],
)
def test_names_of_suites(name: str, openssl: str) -> None:
    assert openssl_name(name) == openssl


def test_openssl_knows_the_names() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL")
    known = {suite["name"] for suite in context.get_ciphers()}
    assert known >= TLS_1_3_SUITES
    for exchange in ("ECDHE_RSA", "ECDHE_ECDSA", "DHE_RSA", "RSA"):
        assert openssl_name(f"TLS_{exchange}_WITH_AES_128_GCM_SHA256") in known
