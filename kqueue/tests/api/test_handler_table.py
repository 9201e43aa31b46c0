"""The table: what the modules say is what is served, and nothing else."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kqueue.api import handler_table, handlers
from kqueue.base.errors import InvalidRequest, UnsupportedVersion
from kqueue.schema import decode, encode
from kqueue.tests.tables import for_each
from kqueue.wire.apis import BY_KEY, BY_MODULE
from kqueue.wire.error_codes import ErrorCode

ROWS = handler_table.all_handlers()


def test_every_handler_module_is_named_for_an_api_and_served() -> None:
    stems = {path.stem for path in Path(inspect.getfile(handlers)).parent.glob("*.py")} - {"__init__"}
    assert stems <= set(BY_MODULE)
    assert sorted(stems) == sorted(row.api.module_name for row in ROWS)


@pytest.mark.long
def test_handlers_are_found_in_a_zip_too(tmp_path: Path) -> None:
    archive = tmp_path / "kqueue.zip"
    source = Path(inspect.getfile(handlers)).parents[3]
    with zipfile.ZipFile(archive, "w") as written:
        for path in sorted((source / "kqueue").rglob("*.py")):
            if "tests" not in path.relative_to(source).parts:
                written.write(path, path.relative_to(source))
    code = (
        "from kqueue.api import handler_table; print(handler_table.__file__); "
        "print(handler_table.lookup(12, 0).api.name, *sorted(handler_table.handler_names()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    command = [sys.executable, "-P", "-c", code]
    output = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    file, names = output.splitlines()
    assert file.startswith(str(archive))
    assert names.split() == ["Heartbeat", *sorted(handler_table.handler_names())]


@for_each("row", ROWS)
def test_advertised_versions_begin_at_0_and_are_stable(row: handler_table.ApiHandler) -> None:
    first = 1 if row.api.name.startswith("Share") else 0  # their version 0 was early access
    last = row.api.versions[1] - 1 if row.api.unstable else row.api.versions[1]
    assert row.versions == (first, last)


def test_rows_are_ordered_by_api_key() -> None:
    keys = [row.api.key for row in ROWS]
    assert keys == sorted(set(keys))
    assert {0, 1, 2, 3, 18, 19, 20, 22, 23, 32, 37, 60} <= set(keys)


@for_each("row", ROWS)
def test_lookup_finds_each_served_version_and_no_other(row: handler_table.ApiHandler) -> None:
    low, high = row.versions
    for version in range(low, high + 1):
        assert handler_table.lookup(row.api.key, version) is row
    if row.api.name != "ApiVersions":
        for version in (low - 1, high + 1, 32767):
            with pytest.raises(UnsupportedVersion, match=row.api.name):
                handler_table.lookup(row.api.key, version)


def test_every_api_with_messages_is_served() -> None:
    assert {row.api.key for row in ROWS} == set(BY_KEY)


@for_each("key", [-1, 56, 999])
def test_an_api_without_messages_is_refused(key: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"no API with key {key} is served"):
        handler_table.lookup(key, 0)


def test_api_versions_is_found_at_any_version_without_remembering_it() -> None:
    before = len(handler_table._CACHE)
    for version in (-5, 99, 32767):
        assert handler_table.lookup(18, version).api.name == "ApiVersions"
    assert len(handler_table._CACHE) == before


@for_each("row, version", [(row, version) for row in ROWS for version in range(row.versions[1] + 1)])
def test_every_api_can_say_that_a_request_failed_at_every_version(row: handler_table.ApiHandler, version: int) -> None:
    request = row.api.request_class()
    if row.api.name == "Produce":
        request.acks = 1
    response = handler_table.error_response(request, version, InvalidRequest("it failed"))
    assert response == row.error_response(request, version, InvalidRequest("it failed"))
    decode(row.api.response_class, version, encode(response, version))
    if row.error_response.__name__ == "error_at_top":
        assert response.error_code == ErrorCode.INVALID_REQUEST


def test_looking_one_up_imports_no_other() -> None:
    code = "import sys; from kqueue.api import handler_table; handler_table.lookup(12, 0); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kqueue.api.handlers.heartbeat" in loaded
    assert "kqueue.api.handlers.fetch" not in loaded
