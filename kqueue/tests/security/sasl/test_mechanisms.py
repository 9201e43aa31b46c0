"""The mechanisms that settings give a listener."""

from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.security.made_up_credentials import MadeUpCredentials
from kqueue.security.principals import Principal
from kqueue.security.sasl.contract import ServerMechanism, SlowStep
from kqueue.security.sasl.exchange import OfferedMechanism
from kqueue.security.sasl.mechanisms import MechanismSources, SaslListenerConfig, offered_mechanisms, read_users
from kqueue.security.sasl.passwords import HASHED_BY
from kqueue.security.sasl.plain import PlainClient
from kqueue.security.sasl.scram import ScramClient
from kqueue.security.sasl.token_validators import JwksConfig
from kqueue.security.sasl.tokens import SigningKeys
from kqueue.security.scram_credentials import (
    SCRAM_MECHANISMS,
    ScramAccount,
    encode_credential,
    make_credential,
)
from kqueue.testing.manual_clock import ManualClock

SHA_256, SHA_512 = SCRAM_MECHANISMS.values()
CAT = ScramAccount(make_credential(SHA_256, "stored"), Principal("User", "cat"))
HASHED = encode_credential(HASHED_BY, make_credential(HASHED_BY, "hidden"))


def no_keys(config: JwksConfig) -> SigningKeys:
    raise AssertionError("nobody uses tokens here")


def offered(settings: dict[str, object], listener: str = "SASL") -> dict[str, OfferedMechanism]:
    def find(mechanism: str, user: str, by_token: bool) -> ScramAccount | None:
        return CAT if (mechanism, user) == ("SCRAM-SHA-256", "cat") else None

    config = Config(CATALOG, settings)
    sources = MechanismSources(find, MadeUpCredentials(), no_keys, ManualClock())
    return offered_mechanisms(SaslListenerConfig(config, listener), sources)


def admits(server: ServerMechanism, user: str, password: str) -> bool:
    client = PlainClient(user, password) if server.name == "PLAIN" else _scram(server, user, password)
    token: bytes | None = client.first()
    try:
        while token is not None:
            answer = server.respond(token)
            answer = answer.finish(answer.run()) if isinstance(answer, SlowStep) else answer
            token = client.respond(answer)
    except SaslAuthenticationFailed:
        return False
    return server.authenticated is not None and server.authenticated.principal == Principal("User", user)


def _scram(server: ServerMechanism, user: str, password: str) -> ScramClient:
    return ScramClient(SCRAM_MECHANISMS[server.name], user, password)


def test_users_come_from_the_login_module_and_the_file(tmp_path):
    file = tmp_path / "users"
    file.write_text(f"# people\n\nann = from the file\nbob=a=b\neva={HASHED}\n")
    one = offered(
        {
            "sasl.enabled.mechanisms": "PLAIN,scram-sha-256,SCRAM-SHA-512",
            "kqueue.sasl.users.file": str(file),
            "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_ann="secret";',
            "listener.name.sasl.plain.connections.max.reauth.ms": 5000,
        }
    )
    assert list(one) == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert [mechanism.session_ms_max for mechanism in one.values()] == [5000, 0, 0]
    begin = {name: mechanism.begin for name, mechanism in one.items()}
    assert admits(begin["PLAIN"](), "ann", "secret")
    assert not admits(begin["PLAIN"](), "ann", "from the file")
    assert admits(begin["SCRAM-SHA-256"](), "ann", "from the file")
    assert admits(begin["SCRAM-SHA-256"](), "cat", "stored")
    assert not admits(begin["SCRAM-SHA-512"](), "cat", "stored")
    for name in begin:
        assert admits(begin[name](), "bob", "a=b")
        assert not admits(begin[name](), "bob", "b")
        assert admits(begin[name](), "eva", "hidden") == (name != "SCRAM-SHA-256")


def test_a_login_module_for_all_mechanisms_is_used_by_its_own():
    settings: dict[str, object] = {
        "sasl.enabled.mechanisms": ["PLAIN", "SCRAM-SHA-256"],
        "listener.name.sasl.sasl.jaas.config": f'{PLAIN_MODULE} required user_ann="secret";',
    }
    one = offered(settings)
    assert admits(one["PLAIN"].begin(), "ann", "secret")
    assert not admits(one["SCRAM-SHA-256"].begin(), "ann", "secret")
    with pytest.raises(SettingError, match="PLAIN of listener OTHER has no users"):
        offered(settings, "OTHER")


def test_a_login_module_of_another_mechanism_is_refused():
    with pytest.raises(SettingError, match=r"listener\.name\.sasl\.plain\.sasl\.jaas\.config: expected the login mod"):
        offered(
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": f'{SCRAM_MODULE} required user_ann="secret";',
            }
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secret", "line 1: expected user=password"),
        ("ann=secret\nann=secret", "line 2: expected user=password, each user once"),
        ("=secret", "line 1"),
        ("ann=", "line 1"),
        (f"ann={HASHED[:-9]}", "line 1: "),
        (f"ann={encode_credential(SHA_256, CAT.credential)}", "expected a credential of SCRAM-SHA-512"),
        ("ann=\udcff", "it is not UTF-8"),
    ],
)
def test_a_wrong_users_file_is_refused_and_never_shown(tmp_path, text, message):
    file = tmp_path / "users"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingError, match=message) as error:
        read_users(str(file), "users.file")
    assert "secret" not in str(error.value)
    assert "$" not in str(error.value)


def test_a_missing_users_file_is_refused(tmp_path):
    with pytest.raises(SettingError, match="cannot read nothing: No such file"):
        read_users(str(tmp_path / "nothing"), "users.file")
