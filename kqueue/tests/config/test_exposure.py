from __future__ import annotations

import logging

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.config.exposure import check_exposure, client_auth
from kqueue.config.listeners import parse_listeners
from kqueue.tests.tables import for_each

ALL = "://0.0.0.0:9092"
ADVERTISED = {"advertised.listeners": "A://kq.example.com:9092"}


def check(protocol: str, address: str = ALL, **values: str) -> None:
    settings = {"listeners": f"A{address}", "listener.security.protocol.map": f"A:{protocol}", **ADVERTISED}
    config = Config(CATALOG, settings | {name.replace("_", "."): value for name, value in values.items()})
    check_exposure(config, parse_listeners(config))


@pytest.mark.parametrize("address", ["://127.0.0.1:9092", "://[::1]:9092", "://localhost:9092", "://127.1.2.3:0"])
def test_loopback_needs_no_authentication(address: str, caplog: pytest.LogCaptureFixture) -> None:
    check("PLAINTEXT", address)
    assert not caplog.records


@for_each("address", [ALL, "://:9092", "://[::]:9092", "://10.1.2.3:9092", "://kq.example.com:9092"])
@for_each("protocol", ["PLAINTEXT", "SSL"])
def test_other_addresses_without_authentication_are_refused(protocol: str, address: str) -> None:
    with pytest.raises(SettingError, match=r"need not authenticate: listen on loopback .*kqueue\.allow\.insecure=true"):
        check(protocol, address)


def test_the_setting_allows_it_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    check("PLAINTEXT", kqueue_allow_insecure="true")
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "clients need not authenticate (kqueue.allow.insecure=true)" in record.getMessage()


@for_each("mode", ["none", "requested"])
def test_a_certificate_that_may_be_missing_is_no_authentication(mode: str) -> None:
    with pytest.raises(SettingError, match="ssl.client.auth=required"):
        check("SSL", ssl_client_auth=mode)


@pytest.mark.parametrize(
    ("protocol", "values"),
    [
        ("SSL", {"ssl_client_auth": "required"}),
        ("SSL", {"listener_name_a_ssl_client_auth": "required"}),
        ("SASL_SSL", {"sasl_enabled_mechanisms": "PLAIN"}),
        ("SASL_PLAINTEXT", {"sasl_enabled_mechanisms": "SCRAM-SHA-512"}),
    ],
)
def test_authentication_is_enough(protocol: str, values: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    check(protocol, authorizer_class_name="standard", **values)
    assert not caplog.records


def test_every_listener_is_looked_at() -> None:
    config = Config(
        CATALOG,
        {
            "listeners": "IN://127.0.0.1:1,OUT://10.0.0.1:2,SAFE://10.0.0.1:3",
            "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT,SAFE:SASL_SSL",
        },
    )
    with pytest.raises(SettingError, match=r"the listener OUT://10\.0\.0\.1:2"):
        check_exposure(config, parse_listeners(config))


def test_all_power_for_whoever_authenticates_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check("SASL_SSL", sasl_enabled_mechanisms="PLAIN")
    assert "there is no authorizer" in caplog.text


@pytest.mark.parametrize(("mechanism", "in_clear"), [("PLAIN", True), ("OAUTHBEARER", True), ("SCRAM-SHA-256", False)])
def test_secrets_without_encryption_are_warned_of(
    mechanism: str, in_clear: bool, caplog: pytest.LogCaptureFixture
) -> None:
    check("SASL_PLAINTEXT", sasl_enabled_mechanisms=mechanism, authorizer_class_name="standard")
    assert (f"takes {mechanism} without TLS" in caplog.text) is in_clear


def test_sasl_listeners_take_client_auth_with_their_prefix_only() -> None:
    settings = {"listeners": "A://127.0.0.1:0", "listener.security.protocol.map": "A:SASL_SSL"}
    config = Config(CATALOG, settings | {"ssl.client.auth": "required"})
    assert client_auth(config, parse_listeners(config)[0]) == "none"
    config = Config(CATALOG, settings | {"listener.name.a.ssl.client.auth": "required"})
    assert client_auth(config, parse_listeners(config)[0]) == "required"


def test_listeners_of_controllers_are_named_in_one_line_and_expose_nothing(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(
        CATALOG,
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://0.0.0.0:9093,MORE://:9094",
            "controller.listener.names": "CONTROLLER,MORE",
        },
    )
    with caplog.at_level("INFO", "kqueue"):
        check_exposure(config, parse_listeners(config))
    assert [record.getMessage() for record in caplog.records] == [
        (
            "not opened: CONTROLLER://0.0.0.0:9093, MORE://:9094, which controller.listener.names names: "
            "there is no controller quorum"
        )
    ]
