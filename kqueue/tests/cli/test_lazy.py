from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kqueue.cli.lazy import LazyCommand, LazyGroup

ENTRY_POINTS = """\
[test.commands]
greet = greetings_of_a_plugin:greet
broken = greetings_of_a_plugin:nothing
odd = greetings_of_a_plugin:number
version = greetings_of_a_plugin:greet
"""
PLUGIN = """\
import click

number = 7

@click.command()
def greet():
    click.echo("hello from a plugin")
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LazyGroup:
    """A group with one built-in command and a distribution that adds four."""
    info = tmp_path / "greetings-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "greetings_of_a_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "greetings_of_a_plugin", raising=False)
    table = {"version": LazyCommand("kqueue.cli.version:version", "The built-in.")}
    # its commands are the real ones, which keep the help options that they are first called with
    return LazyGroup(
        "g", table=table, entry_points="test.commands", context_settings={"help_option_names": ["-h", "--help"]}
    )


def test_a_plugin_adds_a_command(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["greet"])
    assert (result.exit_code, result.output) == (0, "hello from a plugin\n")


def test_help_names_who_added_a_command_and_imports_nothing(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["--help"])
    assert "greet    (added by greetings 1.5)" in result.output
    assert "version  The built-in." in result.output
    assert "greetings_of_a_plugin" not in sys.modules


def test_a_built_in_name_wins(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["version"])
    assert result.output.startswith("kqueue ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "'broken' of greetings 1.5 failed to load: AttributeError"),
        ("odd", "'odd' of greetings 1.5 is not a click command: 7"),
    ],
)
def test_a_bad_plugin_is_named_and_the_others_work(group: LazyGroup, name: str, words: str) -> None:
    result = CliRunner().invoke(group, [name])
    assert result.exit_code == 1
    assert words in result.output
    assert isinstance(result.exception, SystemExit), "no traceback"
    assert CliRunner().invoke(group, ["greet"]).exit_code == 0


def test_a_wrong_name_is_answered_with_the_nearest(group: LazyGroup) -> None:
    result = CliRunner().invoke(group, ["gret"])
    assert result.exit_code == 2
    assert "there is no command 'gret'; did you mean 'greet'?" in result.output


def test_a_target_that_is_no_command_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        LazyCommand("kqueue.cli.lazy:LazyCommand", "").load()
    assert isinstance(LazyCommand("kqueue.cli.version:version", "").load(), click.Command)


def test_help_imports_no_subcommand_and_no_client() -> None:
    code = (
        "import sys; from kqueue.cli.app import kqueue\n"
        "try: kqueue(['--help'])\n"
        "except SystemExit: pass\n"
        "print('LOADED', sorted(m for m in sys.modules if m.split('.')[0] in ('kafka', 'rich', 'asyncio') or "
        "m.startswith('kqueue.')))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = text.rpartition("LOADED")[2]
    expected = [
        "kqueue.base",
        "kqueue.base.errors",
        "kqueue.base.names",
        "kqueue.base.version",
        "kqueue.cli",
        "kqueue.cli.app",
        "kqueue.cli.exit_status",
        "kqueue.cli.lazy",
    ]
    assert loaded.strip() == str(expected)


def imported_by(program: str) -> set[str]:
    """The modules that a program imports."""
    text = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; before = set(sys.modules)\n{program}\nprint(*sys.modules.keys() - before)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return set(text.split())


def test_a_command_starts_without_what_only_some_need() -> None:
    """`python -m benchmarks --only kit` measures the time; it goes with the number of modules."""
    modules = imported_by("from kqueue.cli.app import kqueue")
    assert not modules & {"asyncio", "difflib", "email", "hashlib", "importlib.metadata", "logging", "random", "socket"}
    assert len(modules) < 120


def test_import_of_kqueue_imports_its_version_only() -> None:
    modules = imported_by("import kqueue")
    assert {name for name in modules if name.startswith("kqueue")} == {"kqueue", "kqueue.base", "kqueue.base.version"}
    assert len(modules) < 40


def test_the_console_script_is_declared() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="kqueue")
    assert script.value == "kqueue.cli:main"
