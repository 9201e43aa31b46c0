"""The commands for log folders on URLs of tiers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.cli.log.folder_or_url import FOLDER_OR_URL
from kqueue.tests.tier.tiers import copied_log, put_records
from kqueue.tier.stores.folder import FolderTierStore


def run(*args: object) -> Result:
    return CliRunner().invoke(kqueue, ["log", *map(str, args)])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tier")
    store = FolderTierStore.of_path(str(folder))
    put_records(store)
    copied_log(store)
    return f"file://{folder}"


def test_url_is_returned_as_it_is_and_a_path_as_a_path() -> None:
    assert FOLDER_OR_URL.convert("s3://bucket/x", None, None) == "s3://bucket/x"
    assert FOLDER_OR_URL.convert("data/orders-0", None, None) == Path("data/orders-0")


def test_verify_of_a_partition_and_of_the_tier(url: str) -> None:
    result = run("verify", f"{url}/orders-0", "--deep")
    assert (result.exit_code, "All is sound" in result.stdout) == (0, True), result.output
    report = json.loads(run("verify", url, "--json").stdout)
    assert report["folder"] == url


def test_dump_of_a_partition_and_of_one_file(url: str) -> None:
    whole = run("dump", f"{url}/orders-0", "--print-data-log")
    assert whole.exit_code == 0, whole.output
    assert f"Dumping {url}/orders-0/00000000000000000000.log" in whole.stdout
    assert "payload: 0;0;" in whole.stdout
    one = run("dump", f"{url}/orders-0/00000000000000000000.index")
    assert (one.exit_code, one.stdout.count("Dumping")) == (0, 1), one.output


def test_export_of_one_topic(url: str) -> None:
    result = run("export", url, "--topic", "orders", "--to", "-", "--end-offset", 3, "--value-as", "utf8")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("args", "status", "expected"),
    [
        (["verify", "{}/other-0"], 2, "has no topic other"),
        (["verify", "file:///nowhere/at/all"], 1, "there is no folder /nowhere/at"),
        (["dump", "{}/other-0"], 1, "has no topic other"),
        (["dump", "{}/orders-0/00000000000000000001.log"], 1, "has no file"),
        (["export", "{}/other-0", "--to", "-"], 2, "has no topic other"),
        (["repair", "{}/orders-0", "--copy-to", "x"], 1, "segments never change"),
        (["verify", "ftp://host/orders-0"], 1, "ftp"),
    ],
)
def test_what_is_not_possible_is_said_in_a_sentence(url: str, args: list[str], status: int, expected: str) -> None:
    result = run(*(arg.format(url) for arg in args))
    assert (result.exit_code, expected in result.stderr) == (status, True), result.output
