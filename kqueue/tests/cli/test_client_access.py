from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from kqueue.cli.app import kqueue as root
from kqueue.cli.client_access import TIMEOUT_S, bootstrap_option, client_access


@click.command()
@bootstrap_option
def waiting(bootstrap: str) -> None:
    click.echo(f"{bootstrap} {client_access().timeout_s:g}")


@click.command()
@bootstrap_option(waits=False)
def trying_once(bootstrap: str) -> None:
    click.echo(f"{bootstrap} {client_access().timeout_s:g}")


def test_the_timeout_is_that_of_the_line_then_that_of_the_variable() -> None:
    run = CliRunner(env={"KQUEUE_TIMEOUT": None}).invoke
    assert run(waiting, []).output == f"localhost:9092 {TIMEOUT_S:g}\n"
    assert run(waiting, ["--timeout", "3", "-b", "here:1"]).output == "here:1 3\n"
    assert run(waiting, [], env={"KQUEUE_TIMEOUT": "4"}).output == "localhost:9092 4\n"
    assert run(waiting, ["--timeout", "0"], env={"KQUEUE_TIMEOUT": "4"}).output == "localhost:9092 0\n"
    assert run(waiting, ["--timeout", "-1"]).exit_code == 2


def test_commands_with_a_rule_of_their_own_try_once() -> None:
    assert CliRunner().invoke(trying_once, [], env={"KQUEUE_TIMEOUT": "4"}).output == "localhost:9092 0\n"
    assert CliRunner().invoke(trying_once, ["--timeout", "1"]).exit_code == 2


def test_a_missing_file_of_properties_is_named_unless_help_is_asked_for(tmp_path: Path) -> None:
    words = ["topics", "list", "--command-config", str(tmp_path / "none")]
    result = CliRunner().invoke(root, words)
    assert result.exit_code == 2
    assert f"{tmp_path / 'none'} can't be read: No such file or directory" in result.stderr
    assert CliRunner().invoke(root, [*words, "--help"]).exit_code == 0
