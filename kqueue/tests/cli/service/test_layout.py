from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

import click
import pytest

from kqueue.cli.serve import serve
from kqueue.cli.service.layout import DATA, TARGETS, checked_executable, service_files
from kqueue.config.properties import make_config, read_values
from kqueue.tests.cli.service.support import EXECUTABLE
from kqueue.tests.tables import for_each

TEXTS = {file.name: file.text for file in service_files(EXECUTABLE)}


def unit() -> ConfigParser:
    parsed = ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment]
    parsed.read_string(TEXTS["kqueue.service"])
    return parsed


def test_the_unit_serves_the_settings_that_are_installed() -> None:
    program, name, *words = unit()["Service"]["ExecStart"].split()
    assert (program, name) == (EXECUTABLE, "serve")
    parsed = serve.make_context(name, words, help_option_names=["-h", "--help"])
    assert parsed.params["file"] == Path("/", TARGETS["server.properties"])


def test_the_settings_are_valid_and_open_to_this_machine_alone(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    text = TEXTS["server.properties"]
    for given in (text, text.replace("#kqueue.", "kqueue.")):
        file.write_text(given)
        config = make_config(read_values(file, {}, []))
        assert config["log.dirs"] == [f"/{DATA}"]
        assert config["listeners"] == ["PLAINTEXT://localhost:9092"]


def test_user_folder_and_unit_name_the_same() -> None:
    service = unit()["Service"]
    assert service["User"] == TEXTS["sysusers.conf"].split("\nu ")[1].split()[0]
    assert f"/var/lib/{service['StateDirectory']}" == service["WorkingDirectory"] == f"/{DATA}"
    assert f"root {service['Group']}" in TEXTS["tmpfiles.conf"]


@for_each("executable", ["kqueue", "./kqueue", "/opt/a b/kqueue", "/opt/%n", "/opt/$x", "/opt/../root/kqueue", "/a\nb"])
def test_a_path_that_no_unit_can_have_is_refused(executable: str) -> None:
    with pytest.raises(click.ClickException, match="expected an absolute path"):
        checked_executable(executable)


@for_each("folder", ["/home/ann", "/root", "/tmp", "/var/tmp", "/run/user/1000"])
def test_an_executable_that_the_service_can_not_see_is_refused(folder: str) -> None:
    with pytest.raises(click.ClickException, match="is in .*, which the service can't see: install kqueue elsewhere"):
        checked_executable(f"{folder}/bin/kqueue")


def test_an_executable_that_is_not_there_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/opt/none/bin/python")
    with pytest.raises(click.ClickException, match="/opt/none/bin/kqueue is not there: .* --executable"):
        checked_executable(None)
