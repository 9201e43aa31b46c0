from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.base.errors import SettingError
from kqueue.client import ClientOptions
from kqueue.schema_registry.access import broker_login
from kqueue.schema_registry.access.broker_login import BrokerLogin
from kqueue.schema_registry.errors import RegistryError


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(users={"ann": "secret"}) as broker:
        yield broker


@pytest.mark.parametrize("mechanism", ["PLAIN", "scram-sha-256"])
def test_the_broker_says_who_may_log_in(secured: Broker, mechanism: str) -> None:
    login = BrokerLogin(ClientOptions(bootstrap=secured.bootstrap), mechanism)
    assert login.refusal("ann", "secret") is None
    for user, password in (("ann", "wrong"), ("eve", "secret"), ("ann", "")):
        assert login.refusal(user, password) == "The broker does not accept this user and password."


def test_without_a_broker_nothing_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_login, "TIMEOUT_MS", 50)
    login = BrokerLogin(ClientOptions(bootstrap="127.0.0.1:1"), "PLAIN")
    with pytest.raises(RegistryError, match="The broker that checks logins does not answer") as raised:
        login.refusal("ann", "secret")
    assert raised.value.status == 503


def test_another_mechanism_is_refused() -> None:
    with pytest.raises(SettingError, match="--login=GSSAPI: expected one of PLAIN"):
        BrokerLogin(ClientOptions(bootstrap="127.0.0.1:1"), "GSSAPI")
