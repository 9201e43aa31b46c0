"""URLs of stores, and what is said of those that are none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.testing.tier_store_checks import check_tier_store
from kqueue.tests.tables import for_each
from kqueue.tier.errors import TierError
from kqueue.tier.stores.address import TIER_STORES, check_url, location_of, open_store, secret_option
from kqueue.tier.stores.folder import FolderTierStore
from kqueue.tier.stores.memory import MemoryTierStore, forget_objects
from kqueue.tier.stores.plugin_store import PluginTierStore

SECRET = "hunter2"


@contextmanager
def forgotten(name: str) -> Iterator[None]:
    yield
    forget_objects(name)


def test_memory_url_names_objects_of_the_process() -> None:
    with forgotten("tests/address"):
        store = open_store("memory://tests/address")
        assert isinstance(store, MemoryTierStore)
        store.put("a", [b"1"], 1)
        assert open_store("MEMORY://tests/address/".replace("MEMORY", "memory")).get("a", max_bytes=1).body == b"1"


def test_file_url_names_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    store = open_store(f"file://{tmp_path}/with%20space/tier")
    assert isinstance(store, FolderTierStore)
    store.put("a", [b"1"], 1)
    store.close()
    assert (folder / "tier" / "a").read_bytes() == b"1"
    assert open_store(f"file://localhost{folder}/tier").get("a", max_bytes=1).body == b"1"


@for_each(
    "url, message",
    [
        ("", "expected the URL of an object store, e.g. s3://BUCKET/PREFIX"),
        ("bucket/prefix", "expected the URL of an object store"),
        ("/mnt/tier", "expected the URL of an object store"),
        ("s3:/bucket", "expected the URL of an object store"),
        ("file:/mnt/tier", "expected the URL of an object store"),
        ("memory://" + "a" * 5000, "expected the URL of an object store"),
        ("s4://bucket", r"s4://bucket: no tier store is called 's4'.*there are: az, .*file, gs, memory, s3"),
        ("http://bucket", "http://bucket: no tier store is called 'http'"),
        ("file://host/tier", "expected file:///PATH with an absolute path"),
        ("file://", "expected file:///PATH with an absolute path"),
        ("file:///a%00b", "expected file:///PATH with an absolute path"),
        ("file:///tmp?x=1", "has no options"),
        ("memory://a?x=1", "has no options"),
        ("memory://", "expected a name of letters"),
        ("memory://../x y", "expected a name of letters"),
    ],
)
def test_wrong_url_is_refused_with_what_was_expected(url: str, message: str) -> None:
    with pytest.raises(TierError, match=message) as failure:
        open_store(url)
    assert len(str(failure.value)) < 500


@for_each(
    "url",
    [
        f"s9://user:{SECRET}@bucket/prefix?secret_access_key={SECRET}",
        f"file://user:{SECRET}@host/x",
        f"memory://a?token={SECRET}",
        f"s9:bucket?token={SECRET}",
    ],
)
def test_no_error_has_the_secrets_of_a_url(url: str) -> None:
    with pytest.raises(TierError) as failure:
        open_store(url)
    assert SECRET not in str(failure.value)


@for_each(
    "url, expected",
    [
        ("s3://bucket/prefix?endpoint=http://x&secret_access_key=y", "s3://bucket/prefix"),
        ("s3://user:pass@bucket/prefix#x", "s3://bucket/prefix"),
        ("file:///a@b", "file:///a@b"),
        ("s3://" + "a" * 500, "s3://" + "a" * 195),
    ],
)
def test_location_has_neither_options_nor_user(url: str, expected: str) -> None:
    assert location_of(url) == expected


@for_each(
    "url, expected",
    [
        ("s3://b?secret_access_key=x", "secret_access_key"),
        ("s3://b?region=eu&AWS_Session_Token=x", "aws_session_token"),
        ("s3://b?%73ecret_access_key=x", "secret_access_key"),
        ("az://c?account_name=me&account_key=x", "account_key"),
        ("az://c?sas_token=x", "sas_token"),
        ("gs://b?service_account_key=x", "service_account_key"),
        ("s3://user:pass@b/p", "user"),
        ("mine://b?password=x#y", "password"),
        ("s3://b/secret/key?region=eu&access_key_id=AKIA&profile=x&sse_bucket_key_enabled=true", None),
        ("s3://b?web_identity_token_file=/x&container_credentials_relative_uri=/y", None),
        ("gs://b?service_account=/etc/key.json", None),
        ("file:///a@b/c", None),
    ],
)
def test_secrets_in_a_url_are_known(url: str, expected: str | None) -> None:
    assert secret_option(url) == expected


def test_url_is_checked_without_opening(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/none/tier"
    assert check_url(url) == url
    with pytest.raises(TierError, match="no tier store is called"):
        check_url("s4://bucket")


def test_cloud_url_without_obstore_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ExtraNeeded, match=r"s3://bucket needs the package obstore.*\[tiered\]"):
        open_store("s3://bucket?region=us-east-1")


def test_store_of_a_plugin_is_opened_by_its_scheme_and_guarded() -> None:
    with TIER_STORES.added("mine", lambda url: MemoryTierStore(url.removeprefix("mine://")), "a test"):
        store = open_store("mine://tests/plugin")
        assert isinstance(store, PluginTierStore)
        check_tier_store(open_store, "mine://{name}", objects=10, big_bytes=1000, isolated=False)
    with pytest.raises(TierError, match="no tier store is called 'mine'"):
        open_store("mine://tests/plugin")
    forget_objects("tests/plugin")
