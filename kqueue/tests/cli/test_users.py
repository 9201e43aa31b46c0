from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.broker.access.scram_users import PREFIX
from kqueue.cli import users as users_command
from kqueue.cli.app import kqueue as main
from kqueue.metadata.sqlite import FILE_NAME, SqliteStore
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential, make_credential

Users = Callable[..., Result]
SHA256, SHA512 = SCRAM_MECHANISMS.values()


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        yield broker


@pytest.fixture(params=["broker", "folder"])
def users(request: pytest.FixtureRequest, broker: kqueue.Broker, tmp_path: Path) -> Iterator[Users]:
    """Run `kqueue users` with a broker, or with a folder whose broker was never started."""
    place = ["--folder", str(tmp_path / "data")] if request.param == "folder" else ["-b", broker.bootstrap]

    def run(command: str, *args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, ["users", command, *args, *place], input=input)

    yield run
    for name in json.loads(run("list", "--json").stdout):
        run("remove", name)


def stored(server: kqueue.Broker, name: str) -> dict[str, ScramCredential]:
    credentials = server._server.broker.security.scram.of_user(name)
    return {mechanism.name: credential for mechanism, credential in credentials.items()}


def test_users_are_added_described_listed_and_removed(users: Users) -> None:
    added = users("add", "ann", input="secret\n")
    assert (added.exit_code, added.stdout) == (0, "User ann has a password for SCRAM-SHA-256 and SCRAM-SHA-512.\n")
    assert users("add", "bob", "--scram", "sha-512", "--iterations", "8192", input="x").exit_code == 0
    assert users("list").stdout == "ann\nbob\n"
    assert users("describe").stdout.splitlines() == [
        "USER  MECHANISM      ITERATIONS",
        "ann   SCRAM-SHA-256  4096",
        "ann   SCRAM-SHA-512  4096",
        "bob   SCRAM-SHA-512  8192",
    ]
    assert json.loads(users("describe", "bob", "--json").stdout) == [
        {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 8192}
    ]
    assert users("remove", "ann", "--scram", "SHA-256").stdout == (
        "User ann has no password for SCRAM-SHA-256 any more.\n"
    )
    assert users("remove", "ann").stdout == "User ann has no password for SCRAM-SHA-512 any more.\n"
    assert users("list", "--json").stdout == '["bob"]\n'
    gone = users("remove", "ann")
    assert (gone.exit_code, gone.stderr) == (
        1, "Error: user ann has no password for SCRAM-SHA-256 or SCRAM-SHA-512\n",
    )  # fmt: skip
    shown = users("describe", "ann", "bob", "bobb")
    assert (shown.exit_code, shown.stdout) == (1, users("describe", "bob").stdout)
    assert shown.stderr.splitlines() == [
        "Error: no password is stored for ann",
        "Error: no password is stored for bobb; did you mean 'bob'?",
    ]
    assert users("describe", "ann", "--json").stdout == "[]\n"


def test_the_stored_credential_is_that_of_the_password(broker: kqueue.Broker) -> None:
    run = CliRunner().invoke(main, ["users", "add", "ann", "-b", broker.bootstrap], input="sécret\n")
    assert run.exit_code == 0, run.output
    for mechanism in (SHA256, SHA512):
        credential = stored(broker, "ann")[mechanism.name]
        assert credential == make_credential(mechanism, "sécret", 4096, credential.salt)
        assert len(credential.salt) >= 20


def test_a_password_comes_from_a_file(users: Users, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\nmore\n")
    assert users("add", "ann", "--password-file", str(file)).exit_code == 0
    assert users("add", "ann", "--password-file", "-", input="other\n").exit_code == 0
    missing = users("add", "ann", "--password-file", str(tmp_path / "none"))
    assert (missing.exit_code, "can't be read from" in missing.stderr) == (1, True)
    file.write_bytes(b"\xff\n")
    assert "is not UTF-8" in users("add", "ann", "--password-file", str(file)).stderr


def test_a_password_in_the_arguments_is_warned_about(users: Users) -> None:
    result = users("add", "ann", "--password", "secret")
    assert result.exit_code == 0
    assert "Warning: a password in the arguments can be seen by others" in result.stderr
    assert "secret" not in result.output


@pytest.mark.parametrize(
    ("args", "input", "message"),
    [
        (["ann"], "", "expected a password of 1 to 4096 bytes"),
        (["ann"], "x" * 5000, "expected a password of 1 to 4096 bytes"),
        (["a\nb"], "x", "Username must not have control characters"),
        (["x" * 256], "x", "Username must not have more than 255 characters"),
        (["ann", "--iterations", "4095"], "x", "4095 is not in the range 4096<=x<=16384"),
        (["ann", "--password", "x", "--password-file", "-"], "x", "exclude each other"),
        (["ann", "--scram", "MD5"], "x", "'MD5' is not one of"),
    ],
)
def test_bad_arguments_are_refused(users: Users, args: list[str], input: str, message: str) -> None:
    result = users("add", *args, input=input)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert users("list").stdout == ""


def test_a_password_is_asked_for_twice_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = []

    def prompt(text: str, **options: object) -> str:
        prompts.append((text, options["hide_input"], options["confirmation_prompt"]))
        return "secret"

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    assert users_command._password(None, None) == "secret"
    assert prompts == [("Password", True, True)]


def test_the_first_user_is_there_when_the_broker_starts(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    add = ["users", "add", "admin", "--folder", str(folder)]
    assert CliRunner().invoke(main, add, input="secret").exit_code == 0
    assert folder.stat().st_mode & 0o077 == 0
    with kqueue.Broker(folder) as broker:
        assert set(stored(broker, "admin")) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
        running = CliRunner().invoke(main, add, input="other")
        assert running.exit_code == 1
        assert "--bootstrap-server" in running.stderr
    assert CliRunner().invoke(main, ["users", "remove", "admin", "--folder", str(folder)]).exit_code == 0
    with kqueue.Broker(folder) as broker:
        assert stored(broker, "admin") == {}


def test_a_damaged_entry_is_reported_and_replaced(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / FILE_NAME)
    store.commit({}, {f"{PREFIX}ann": b"damaged"}, [])
    store.close()
    place = ["--folder", str(tmp_path)]
    listed = CliRunner().invoke(main, ["users", "list", *place])
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert listed.stderr == "Warning: the entry of user ann is damaged; set the password again.\n"
    assert CliRunner().invoke(main, ["users", "add", "ann", *place], input="secret").exit_code == 0
    assert CliRunner().invoke(main, ["users", "list", *place]).stdout == "ann\n"


def test_nothing_of_the_password_is_in_the_folder(tmp_path: Path) -> None:
    CliRunner().invoke(main, ["users", "add", "ann", "--folder", str(tmp_path)], input="S3CR3T-PASSWORD")
    assert not any(b"S3CR3T" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
