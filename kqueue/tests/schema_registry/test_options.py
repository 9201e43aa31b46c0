from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kqueue.base.errors import KqueueError
from kqueue.schema_registry.options import RegistryOptions, client_options

USERS = Path("users")


def options(**given: Any) -> RegistryOptions:
    return RegistryOptions(client=client_options("127.0.0.1:9092"), **given)


def test_by_default_a_registry_is_open_on_loopback() -> None:
    made = options()
    assert (made.is_loopback, made.authenticates, made.port, made.topic) == (True, False, 8081, "_schemas")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"host": "0.0.0.0"}, "users need not log in"),
        ({"host": "registry.example"}, "users need not log in"),
        ({"host": "0.0.0.0", "login": "PLAIN"}, "passwords are sent without TLS"),
        ({"login": "GSSAPI"}, "expected one of PLAIN"),
        ({"login": "PLAIN", "users_file": USERS}, "exclude each other"),
        ({"tls_cert": "cert.pem"}, "belong together"),
        ({"super_users": ("ann",)}, "needs --acls"),
        ({"uses_acls": True}, "--acls needs users"),
        ({"compatibility": "backward"}, "expected one of"),
        ({"advertised_url": "registry:8081"}, "--advertised-url: 'registry:8081': expected http://HOST:PORT"),
        ({"topic": "no/topic"}, "topic"),
    ],
)
def test_options_that_are_not_safe_or_exclude_each_other_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(KqueueError, match=words):
        options(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"allow_anonymous": True},
        {"login": "scram-sha-512", "allow_plain_http": True},
        {"users_file": USERS, "tls_cert": "cert.pem", "tls_key": "key.pem"},
    ],
)
def test_another_address_is_served_where_it_is_safe_or_allowed(given: dict[str, Any]) -> None:
    assert not options(host="0.0.0.0", **given).is_loopback


def test_calls_of_the_registry_end_within_a_session() -> None:
    from kqueue.schema_registry.election.election_member import TIMES

    assert client_options("127.0.0.1:9092").timeout_ms < TIMES.session_ms
    assert client_options("127.0.0.1:9092", timeout_ms=5).timeout_ms == 5
