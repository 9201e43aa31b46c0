from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as main

OUT = ("listeners=A://0.0.0.0:0", "advertised.listeners=A://kq.example.com:9092")
SASL = (
    "listener.security.protocol.map=A:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=SCRAM-SHA-512",
    "authorizer.class.name=standard",
)


def check(folder: Path, *settings: str) -> Result:
    pairs = (f"log.dirs={folder}", *settings)
    return CliRunner().invoke(main, ["serve", "--check", *(arg for pair in pairs for arg in ("--set", pair))])


def test_the_default_is_open_to_this_machine_only(tmp_path: Path) -> None:
    result = check(tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].startswith("PLAINTEXT://localhost:9092  ")
    assert "this machine" in result.stdout
    assert "authorizer   none: every client may do everything" in result.stdout
    assert "anonymous    everything, on PLAINTEXT" in result.stdout
    assert not (tmp_path / "new").exists()


def test_broker_that_would_not_start_has_status_2(tmp_path: Path) -> None:
    result = check(tmp_path, *OUT, "listener.security.protocol.map=A:PLAINTEXT")
    assert result.exit_code == 2
    assert "kqueue.allow.insecure=true" in result.output
    result = check(tmp_path, *OUT, "listener.security.protocol.map=A:SASL_PLAINTEXT")
    assert result.exit_code == 2
    assert "needs sasl.enabled.mechanisms" in result.output


@pytest.mark.parametrize(
    "settings",
    [
        ("listener.security.protocol.map=A:PLAINTEXT", "kqueue.allow.insecure=true", "authorizer.class.name=standard"),
        ("listener.security.protocol.map=A:SASL_PLAINTEXT", "sasl.enabled.mechanisms=SCRAM-SHA-512"),
    ],
)
def test_exposed_unsecured_listener_has_status_1(tmp_path: Path, settings: tuple[str, ...]) -> None:
    result = check(tmp_path, *OUT, *settings)
    assert result.exit_code == 1, result.output
    assert "other machines" in result.stdout


def test_users_and_acls_are_counted_beside_a_running_broker(tmp_path: Path) -> None:
    acls = ["User:ann allow read topic:a", "User:* allow describe topic prefixed:b"]
    with kqueue.Broker(tmp_path, acls=acls):
        result = check(tmp_path, *OUT, *SASL)
    assert result.exit_code == 0, result.output
    assert "ACLs         2" in result.stdout
    assert "anonymous    nothing: all listeners authenticate" in result.stdout
    assert "SCRAM-SHA-512" in result.stdout


def test_rights_of_anonymous_clients_are_listed(tmp_path: Path) -> None:
    acls = ["User:ann allow read topic:a", "User:* allow describe topic prefixed:b"]
    with kqueue.Broker(tmp_path, acls=acls):
        pass
    inside = ("authorizer.class.name=standard", "allow.everyone.if.no.acl.found=true")
    result = check(tmp_path, *inside)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-3:] == [
        "anonymous    1 ACL for it on PLAINTEXT",
        "  everything to which no ACL applies (allow.everyone.if.no.acl.found=true)",
        "  User:* allow describe topic prefixed:b",
    ]
    result = check(tmp_path, *inside, "super.users=User:ann;User:ANONYMOUS")
    assert "anonymous    everything, on PLAINTEXT: User:ANONYMOUS is a super user" in result.stdout
