"""Properties of TLS, and the options of login modules that have their names."""

from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.tls_properties import tls_client_settings, tls_options


def test_options_of_a_login_module_are_properties_of_tls() -> None:
    given = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem", "ssl.protocol": "TLSv1.3"}
    options = tls_options({"clientId": "ann", **given}, "sasl.jaas.config")
    assert options == tls_client_settings(given)
    assert options.trusted.location == "ca.pem"
    assert options.check_host
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config: option ssl\.enabled\.protocols=SSLv3"):
        tls_options({"ssl.enabled.protocols": "SSLv3"}, "sasl.jaas.config")
    with pytest.raises(SettingError, match=r"did you mean 'ssl\.truststore\.type'"):
        tls_options({"ssl.truststore.typ": "PEM"}, "sasl.jaas.config")
