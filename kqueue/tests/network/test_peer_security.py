"""The settings of connections to other brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.tests.network.peer_tls_harness import (
    security,
)


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    assert "secret" not in repr(security(tmp_path, protocol="SASL_SSL").login)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "GSSAPI: expected one of PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}, "has no credentials for the others: set listener."),
        ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint"),
        (
            {"listener.name.sasl_ssl.plain.sasl.jaas.config": "x.PlainLoginModule required;"},
            "expected the login module",
        ),
        ({"ssl.truststore.location": "/missing.pem"}, "ssl.truststore.location=/missing.pem can't be read"),
    ],
)
def test_missing_peer_setting_is_named(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=message.replace(".", r"\.")):
        security(tmp_path, protocol="SASL_SSL", **settings)
