from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.cli.client_access import client_access
from kqueue.cli.profiles import Profiles

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*args: str, **env: str) -> Result:
        return CliRunner().invoke(root, args, env={"XDG_CONFIG_HOME": str(tmp_path), **env})

    return run


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, str]]:
    with kqueue.Broker() as one, kqueue.Broker() as two:
        one.create_topic("of-one")
        two.create_topic("of-two")
        yield {"one": one.bootstrap, "two": two.bootstrap}


@pytest.fixture
def stored(run: Run, brokers: dict[str, str]) -> None:
    for name, address in brokers.items():
        assert run("profile", "create", name, "-b", address).exit_code == 0


def topics(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return str(result.stdout.strip())


@pytest.mark.usefixtures("stored")
def test_the_first_profile_is_in_use_and_another_can_be_chosen(run: Run) -> None:
    assert topics(run("topics", "list")) == "of-one"
    assert topics(run("topics", "list", "--profile", "two")) == "of-two"
    assert topics(run("--profile", "two", "topics", "list")) == "of-two"
    assert topics(run("topics", "list", KQUEUE_PROFILE="two")) == "of-two"
    assert run("profile", "use", "two").exit_code == 0
    assert topics(run("topics", "list")) == "of-two"
    assert [row["name"] for row in json.loads(run("profile", "list", "-o", "json").stdout) if row["in_use"]] == ["two"]
    assert "two*" in run("profile", "list").stdout


@pytest.mark.usefixtures("stored")
def test_the_command_line_comes_before_variables_and_these_before_the_profile(
    run: Run, brokers: dict[str, str]
) -> None:
    assert topics(run("topics", "list", "-b", brokers["two"])) == "of-two"
    assert topics(run("topics", "list", KQUEUE_BOOTSTRAP=brokers["two"])) == "of-two"
    assert topics(run("topics", "list", "--profile", "one", KQUEUE_BOOTSTRAP=brokers["two"])) == "of-one"
    assert topics(run("topics", "list", "--profile", "one", "-b", brokers["two"])) == "of-two"
    assert topics(run("topics", "list", KQUEUE_BOOTSTRAP=brokers["two"], KQUEUE_PROFILE="one")) == "of-two"
    assert topics(run("--profile", "one", "topics", "list", "--profile", "two")) == "of-two"


def test_a_password_goes_to_its_own_cluster_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def probe(bootstrap: str, timeout_s: float = 0) -> None:
        security = client_access().security
        seen.append(None if security is None else security.protocol.name)
        raise KeyboardInterrupt

    monkeypatch.setattr("kqueue.cli.broker_wait.probe_broker", probe)
    secret = ("-s", "security.protocol=SASL_PLAINTEXT", "-s", "sasl.mechanism=PLAIN", "-s", "sasl.username=ann")
    created = run("profile", "create", "prod", "-b", "prod:9092", *secret, "-s", "sasl.password=hidden-word")
    assert created.exit_code == 0, created.output
    for args, env in (
        ((), {}),
        (("-b", "elsewhere:9092"), {}),
        ((), {"KQUEUE_BOOTSTRAP": "elsewhere:9092"}),
        (("--profile", "prod", "-b", "prod-2:9092"), {}),
    ):
        assert run("topics", "list", *args, **env).exit_code == 130
    assert seen == ["SASL_PLAINTEXT", None, None, "SASL_PLAINTEXT"]


def test_secrets_are_not_shown_and_files_are_private(run: Run, tmp_path: Path) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="hidden-word";'
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location=ca.pem\nsasl.jaas.config={jaas}\nssl.key.password=hidden-word\n"
    )
    assert run("profile", "create", "prod", "-b", "b:9093", "--command-config", str(file)).exit_code == 0
    for args in (("show",), ("show", "prod", "-o", "json"), ("list",), ("list", "-o", "json")):
        shown = run("profile", *args)
        assert shown.exit_code == 0, shown.output
        assert "hidden-word" not in shown.output
    assert "security.protocol=SASL_SSL" in run("profile", "show").stdout
    assert f"ssl.truststore.location={Path.cwd() / 'ca.pem'}" in run("profile", "show").stdout
    folder = tmp_path / "kqueue"
    assert Profiles(folder).read("prod")["sasl.jaas.config"] == jaas
    for path in (folder / "profiles" / "prod.properties", folder / "profile"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_editor_changes_a_profile_and_what_is_wrong_is_not_stored(run: Run, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/^$OLD.*/$NEW/" "$1"\n')
    editor.chmod(0o700)
    run("profile", "create", "prod", "-b", "a:9092")
    edit = ("profile", "edit", "prod")
    env = {"EDITOR": str(editor), "VISUAL": ""}
    assert run(*edit, OLD="bootstrap", NEW="bootstrap.servers=b:9092", **env).output == "Changed profile prod.\n"
    assert "bootstrap.servers=b:9092" in run("profile", "show", "prod").stdout
    wrong = run(*edit, OLD="bootstrap", NEW="security.protocol=TLS", **env)
    assert wrong.exit_code == 1
    assert "security.protocol=TLS: expected one of" in wrong.stderr
    assert "bootstrap.servers=b:9092" in run("profile", "show", "prod").stdout
    assert run(*edit, OLD="nothing", NEW="", **env).output == "Profile prod is unchanged.\n"
    assert run("profile", "edit", "new", OLD="nothing", NEW="", **env).exit_code == 0
    assert "bootstrap.servers=localhost:9092" in run("profile", "show", "new").stdout


def test_profiles_are_deleted_and_missing_ones_are_named(run: Run) -> None:
    run("profile", "create", "prod", "-b", "a:9092")
    assert "exists already" in run("profile", "create", "prod").stderr
    for args in (("profile", "use", "prud"), ("profile", "show", "prud"), ("profile", "delete", "prud")):
        missing = run(*args)
        assert (missing.exit_code, "did you mean 'prod'?" in missing.stderr) == (1, True), missing.output
    wrong = run("topics", "list", "--profile", "prud")
    assert (wrong.exit_code, "did you mean 'prod'?" in wrong.stderr) == (2, True)
    assert run("profile", "delete", "prod").exit_code == 0
    assert "no profile is in use" in run("profile", "show").stderr
    assert run("profile", "create", "../x").exit_code == 1
    assert run("profile", "use").exit_code == 2


def test_a_profile_in_use_whose_file_is_gone_is_reported(run: Run, tmp_path: Path) -> None:
    run("profile", "create", "prod", "-b", "a:9092")
    (tmp_path / "kqueue" / "profiles" / "prod.properties").unlink()
    result = run("topics", "list")
    assert result.exit_code == 2
    assert "there is no profile 'prod'" in result.stderr
