"""The commands, against the registry's own REST API over a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue as root
from kqueue.schema_registry.rest.app import registry_app
from kqueue.tests.schema_registry.support import LoggedRegistry
from kqueue.tests.waits import eventually

Run = Callable[..., Result]
USER = '{"type":"record","name":"User","fields":[{"name":"id","type":"int"}]}'
MORE = '{"type":"record","name":"User","fields":[{"name":"id","type":"int"},{"name":"n","type":"int"}]}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = registry_app(LoggedRegistry())
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    eventually(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def run(url: str) -> Run:
    def invoke(*args: str, **options: Any) -> Result:
        return CliRunner().invoke(root, ["schemas", *args], env={"KQUEUE_SCHEMA_REGISTRY": url}, **options)

    return invoke


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


File = Callable[[str, str], str]


def test_schema_is_registered_listed_and_shown(run: Run, file: File) -> None:
    registered = run("register", "users-value", file("user.avsc", USER), "-o", "json")
    assert registered.exit_code == 0, registered.output
    schema_id = json.loads(registered.stdout)["id"]
    listed = run("list", "--subject-prefix", "users-").stdout.splitlines()
    assert [line.split() for line in listed] == [
        ["SUBJECT", "VERSION", "ID", "TYPE"],
        ["users-value", "1", str(schema_id), "AVRO"],
    ]
    assert run("show", "users-value").stdout == USER + "\n"
    shown = json.loads(run("show", "users-value", "--version", "1", "-o", "json").stdout)
    assert (shown["subject"], shown["id"], shown["type"], shown["references"]) == ("users-value", schema_id, "AVRO", [])


def test_check_says_why_a_schema_is_not_compatible_and_has_status_1(run: Run, file: File) -> None:
    assert run("register", "checked", file("user.avsc", USER)).exit_code == 0
    assert run("check", "checked", file("user.avsc", USER)).stdout == "Compatible with checked.\n"
    result = run("check", "checked", file("more.avsc", MORE), "--version", "latest")
    assert result.exit_code == 1
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in result.stdout
    answer = json.loads(run("check", "checked", file("more.avsc", MORE), "-o", "json").stdout)
    assert answer["is_compatible"] is False
    refused = run("register", "checked", file("more.avsc", MORE))
    assert refused.exit_code == 1
    assert "refuses it (409)" in refused.stderr


def test_references_and_types_of_files(run: Run, file: File) -> None:
    other = file("other.proto", 'syntax = "proto3"; message Other {}')
    assert run("register", "other", other).exit_code == 0
    main = file("main.txt", 'syntax = "proto3"; import "other.proto"; message M { Other a = 1; }')
    assert "--type is needed" in run("register", "main", main).stderr
    arguments = ("register", "main", main, "--type", "PROTOBUF", "--normalize")
    assert "main.txt" not in run(*arguments, "--reference", "other.proto").stderr
    assert run(*arguments, "--reference", "other.proto").exit_code == 2
    result = run(*arguments, "--reference", "other.proto=other:1")
    assert result.exit_code == 0, result.output
    assert ".Other a = 1;" in run("show", "main").stdout
    assert run("register", "settings", file("settings.json", '{"type":"object"}')).exit_code == 0


def test_subject_is_deleted_after_a_question(run: Run, file: File) -> None:
    assert run("register", "a/b c", file("user.avsc", USER)).exit_code == 0
    assert run("delete", "a/b c", input="n\n").exit_code == 1
    assert run("delete", "a/b c", input="y\n").exit_code == 0
    assert "(40401)" in run("show", "a/b c").stderr
    assert "a/b c" in run("list", "--deleted").stdout
    assert json.loads(run("delete", "a/b c", "--permanent", "--yes", "-o", "json").stdout)["versions"] == [1]
    assert "a/b c" not in run("list", "--deleted").stdout


def test_version_of_a_subject_is_deleted(run: Run, file: File) -> None:
    assert run("register", "versions", file("user.avsc", USER)).exit_code == 0
    assert run("delete", "versions", "--version", "first", "--yes").exit_code == 2
    assert run("delete", "versions", "--version", "1", "--yes").stdout == "Deleted version 1 of versions.\n"


def test_registry_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kqueue.cli.schemas.RETRY_S", ())
    result = CliRunner().invoke(root, ["schemas", "list", "--schema-registry", "http://127.0.0.1:1"])
    assert result.exit_code == 1
    assert "the schema registry http://127.0.0.1:1 gives no answer" in result.stderr
    assert CliRunner().invoke(root, ["schemas", "list", "--schema-registry", "nothing"]).exit_code == 2
