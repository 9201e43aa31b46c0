"""The sources of the tokens of OAUTHBEARER. `tests/embedded/test_oauthbearer.py` gets some."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.client_security import ClientSecurity
from kqueue.config.token_login import TokenLogin
from kqueue.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE
from kqueue.tests.tables import for_each

URL = "sasl.oauthbearer.token.endpoint.url"
TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", URL: "https://idp.example/token"}
CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": "ann",
    "sasl.oauthbearer.client.credentials.client.secret": "pa55",
}
JAAS = f'{PLAIN_MODULE} required username="ann" password="pa55";'


def test_credentials_of_tokens_come_from_properties_or_the_login_module() -> None:
    jaas = f'{OAUTHBEARER_MODULE} required clientId="ann" clientSecret="pa55" scope=s extension_team=a;'
    module = ClientSecurity.of({**TOKEN, "sasl.jaas.config": jaas})
    named = ClientSecurity.of({**TOKEN, **CREDENTIALS, "sasl.oauthbearer.scope": "s"})
    assert isinstance(module.login, TokenLogin)
    assert isinstance(named.login, TokenLogin)
    assert module.login == dataclasses.replace(named.login, extensions=(("team", "a"),))
    assert "pa55" not in repr(module)
    assert pickle.loads(pickle.dumps(module)) == module


@for_each(
    "given, message",
    [
        ({**TOKEN, URL: ""}, f"OAUTHBEARER needs {URL}"),
        (TOKEN, "or clientId and clientSecret in sasl.jaas.config"),
        ({**TOKEN, "sasl.jaas.config": JAAS}, "expected the login module"),
        ({**TOKEN, **CREDENTIALS, "sasl.login.read.timeout.ms": "0"}, "sasl.login.read.timeout.ms=0: expected"),
        ({**TOKEN, **CREDENTIALS, "sasl.oauthbearer.header.urlencode": "yes"}, "expected true or false"),
        ({**TOKEN, **CREDENTIALS, "sasl.login.callback.handler.class": "com.example.Own"}, "expected org.apache"),
    ],
)
def test_wrong_login_setting_is_named_without_secrets(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as raised:
        ClientSecurity.of(given)
    assert message in str(raised.value)
    assert "pa55" not in str(raised.value)
