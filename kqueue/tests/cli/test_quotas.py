from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import Result

Kq = Callable[..., Result]
Done = Callable[..., str]


def test_quotas_are_set_listed_shown_and_removed(done: Done) -> None:
    assert done("quotas", "set", "--user", "ann", "producer_byte_rate=1048576", "request_percentage=12.5") == (
        "Set producer_byte_rate, request_percentage of user 'ann'.\n"
    )
    done("quotas", "set", "--user", "ann", "--client-id", "app", "producer_byte_rate=2097152")
    done("quotas", "set", "--default-ip", "connection_creation_rate=50000")
    done("quotas", "set", "--ip", "192.0.2.7", "connection_creation_rate=5")
    assert done("quotas", "list") == (
        "USER  CLIENT ID  IP         QUOTA                     VALUE\n"
        "-     -          192.0.2.7  connection_creation_rate  5\n"
        "-     -          <default>  connection_creation_rate  50000\n"
        "ann   -          -          producer_byte_rate        1048576\n"
        "ann   -          -          request_percentage        12.5\n"
        "ann   app        -          producer_byte_rate        2097152\n"
    )
    assert json.loads(done("quotas", "list", "--default-ip", "--json")) == [
        {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 50000}}
    ]
    assert done("quotas", "show", "--user", "ann", "--client-id", "app") == (
        "USER  CLIENT ID  IP  QUOTA               VALUE\n"
        "ann   -          -   request_percentage  12.5\n"
        "ann   app        -   producer_byte_rate  2097152\n"
    )
    assert done("quotas", "show", "--user", "bob") == "There are no quotas.\n"
    assert done("quotas", "remove", "--user", "ann", "request_percentage") == (
        "Removed request_percentage of user 'ann'.\n"
    )
    for entity in (
        ("--user", "ann"),
        ("--user", "ann", "--client-id", "app"),
        ("--default-ip",),
        ("--ip", "192.0.2.7"),
    ):
        assert done("quotas", "remove", *entity).startswith("Removed ")
    assert done("quotas", "remove", "--user", "ann") == "There are no quotas of user 'ann'.\n"
    assert done("quotas", "list") == "There are no quotas.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("set", "--user", "ann"), "Missing argument"),
        (("set", "producer_byte_rate=1"), "say of whom"),
        (("remove",), "say of whom"),
        (("set", "--user", "ann", "colour=1"), "there is no quota 'colour'"),
        (("remove", "--user", "ann", "colour"), "there is no quota 'colour'"),
        (("set", "--user", "ann", "producer_byte_rate"), "expected QUOTA=VALUE"),
        (("set", "--user", "ann", "producer_byte_rate=many"), "expected QUOTA=VALUE"),
        (("set", "--user", "ann", "producer_byte_rate=1", "producer_byte_rate=2"), "named twice"),
        (("set", "--user", "ann", "--default-user", "producer_byte_rate=1"), "exclude each other"),
    ],
)
def test_invalid_arguments_are_refused_with_the_reason(kq: Kq, arguments: tuple[str, ...], words: str) -> None:
    result = kq("quotas", *arguments)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


def test_refusal_of_the_broker_is_printed(kq: Kq) -> None:
    result = kq("quotas", "set", "--user", "ann", "producer_byte_rate=0.5")
    assert result.exit_code == 1
    assert "the quotas of user 'ann' were refused: producer_byte_rate cannot be a fractional value" in result.stderr
