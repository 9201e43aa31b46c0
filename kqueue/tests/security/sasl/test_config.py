"""Settings of SASL."""

from __future__ import annotations

from kqueue.base.config import Config
from kqueue.config.catalog import CATALOG
from kqueue.security.sasl.config import SETTINGS


def test_settings_can_be_of_one_listener_and_mechanism():
    config = Config(
        CATALOG,
        {
            "connections.max.reauth.ms": 1,
            "listener.name.a.connections.max.reauth.ms": 2,
            "listener.name.a.plain.connections.max.reauth.ms": 3,
        },
    )
    name = "connections.max.reauth.ms"
    assert [config.of_listener(*key) for key in [("B", name), ("A", name), ("A", name, "PLAIN")]] == [1, 2, 3]


def test_login_modules_are_secrets():
    assert [row.name for row in SETTINGS if row.is_secret] == [
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
    ]
    assert CATALOG.find_broker("listener.name.a.plain.sasl.jaas.config").is_secret
