"""Names of cipher suites: those of the standard, which Java uses, and OpenSSL's."""

from __future__ import annotations

import re

TLS_1_3_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The suites of TLS 1.3 that OpenSSL offers; here both name them alike."""
_SUITE = re.compile(
    r"TLS_(?P<exchange>\w+?)_WITH_(?:(?P<cipher>AES)_(?P<bits>128|256)_(?P<mode>GCM|CBC)|CHACHA20_POLY1305)_(?P<mac>SHA\d*)"
)
_EXCHANGES = {
    "RSA": "",
    "ECDHE_RSA": "ECDHE-RSA-",
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "DHE_RSA": "DHE-RSA-",
}


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite; another name than one of the standard stays as it is."""
    match = _SUITE.fullmatch(name)
    if match is None or match["exchange"] not in _EXCHANGES:
        return name
    exchange = _EXCHANGES[match["exchange"]]
    if match["cipher"] is None:
        return f"{exchange}CHACHA20-POLY1305"
    mode = "GCM-" if match["mode"] == "GCM" else ""
    return f"{exchange}AES{match['bits']}-{mode}{match['mac']}"
