"""Options of TLS contexts."""

from __future__ import annotations

import ssl

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.tls_options import reason_of, use_protocols, use_suites
from kqueue.tests.tables import for_each


@for_each("protocol", [ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER])
def test_protocols_and_suites_are_limited(protocol: int) -> None:
    context = ssl.SSLContext(protocol)
    use_protocols(context, ["TLSv1.3", "TLSv1.2"])
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    suites = use_suites(context, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])
    assert suites == {"ECDHE-RSA-AES128-GCM-SHA256"}
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_suites_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingError, match="OpenSSL has none of these"):
        use_suites(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ["TLS_OF_NOWHERE"])


def test_reasons_are_short() -> None:
    assert reason_of(ValueError("what it says")) == "what it says"
