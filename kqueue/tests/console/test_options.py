from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import SettingError
from kqueue.client import ClientOptions
from kqueue.config.client_security import ClientSecurity
from kqueue.console.options import ConsoleOptions

TOKEN = "0123456789abcdef"


def options(**given: Any) -> ConsoleOptions:
    return ConsoleOptions(client=ClientOptions(bootstrap="localhost:9092"), **given)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_no_login(host: str) -> None:
    assert options(host=host).is_loopback
    assert not options(host=host).authenticates


def test_metrics_need_the_history() -> None:
    assert options(metrics=("http://a",), history_interval_ms=1_000).metrics == ("http://a",)
    with pytest.raises(SettingError, match="--metrics needs the history"):
        options(metrics=("http://a",))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "console.example"])
def test_another_address_without_a_login_is_refused(host: str) -> None:
    with pytest.raises(SettingError, match="users need not log in"):
        options(host=host)


def test_another_address_needs_tls_or_a_proxy_that_adds_it() -> None:
    with pytest.raises(SettingError, match="without TLS"):
        options(host="0.0.0.0", token=TOKEN)
    assert options(host="0.0.0.0", token=TOKEN, allow_plain_http=True).authenticates
    assert options(host="0.0.0.0", login="plain", tls_cert="a", tls_key="b").login == "PLAIN"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"token": "short"}, "too short"),
        ({"token": TOKEN, "login": "PLAIN"}, "exclude each other"),
        ({"login": "GSSAPI"}, "expected one of PLAIN"),
        ({"tls_cert": "a"}, "belong together"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        options(**given)


def test_the_clients_of_a_user_have_its_login_and_the_tls_of_the_console() -> None:
    user = options(login="SCRAM-SHA-256").client_of("ann", "secret")
    assert user.security is not None
    assert user.security.protocol.name == "SASL_PLAINTEXT"
    assert (user.security.login.mechanism, user.security.login.user) == ("SCRAM-SHA-256", "ann")
    assert "secret" not in repr(user)
    tls = ClientSecurity.of({"security.protocol": "SSL"})
    console = ConsoleOptions(client=ClientOptions(bootstrap="localhost:9092", security=tls), login="PLAIN")
    secured = console.client_of("ann", "secret").security
    assert secured is not None
    assert (secured.protocol.name, secured.tls) == ("SASL_SSL", tls.tls)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(options(token=TOKEN))
