"""A prefix of a bucket, over the wire."""

from __future__ import annotations

import pickle
import random
import re
import socket
import sys
from collections.abc import Iterator

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.spark.stores import Location, s3
from kqueue.spark.stores.s3 import RETRIES, Bucket, S3Store, settings_of
from kqueue.tests.spark.stores.contract import check_store
from kqueue.tests.spark.stores.failing_server import failing
from kqueue.tests.spark.stores.s3_server import KEYS, s3_place, s3_server
from kqueue.tests.tables import for_each

pytest.importorskip("obstore")


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    pytest.importorskip("moto")
    with s3_server() as settings:
        yield settings


def test_prefix_fulfils_the_contract_of_stores(server: dict[str, str]) -> None:
    check_store(S3Store(s3_place(server, "pre/fix")))
    check_store(S3Store(s3_place(server, "pre/fix2/")))
    assert S3Store(s3_place(server, "")).names("") == ["pre/fix/batches2/1.json", "pre/fix2/batches2/1.json"]


def test_tasks_get_the_bucket_without_connections(server: dict[str, str]) -> None:
    bucket = Bucket("bucket", "tasks", settings_of(server, {}))
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in repr(bucket)
    bucket.put("a b=ä/x", b"1")
    bucket.put("a b=ä/x", b"2")
    again: Bucket = pickle.loads(pickle.dumps(bucket))
    assert again.get("a b=ä/x") == b"2"


def test_repeated_write_succeeds_and_another_writers_is_refused(server: dict[str, str]) -> None:
    store = S3Store(s3_place(server, "again"))
    assert store.put_new("x", b"mine")
    assert store.put_new("x", b"mine")
    assert not store.put_new("x", b"yours")


def test_requests_that_fail_are_repeated(server: dict[str, str]) -> None:
    with failing(server["AWS_ENDPOINT_URL"], random.Random(7), 0.3) as address:
        check_store(S3Store(s3_place({**server, "AWS_ENDPOINT_URL": address}, "failing")))


def test_refusing_or_unreachable_server_is_reported_in_one_sentence(
    server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RETRIES, "max_retries", 1)
    with pytest.raises(PipelineFailed, match=r"s3://bucket-2/kept/batches can't be reached: The specified bucket does"):
        S3Store(Location("s3://bucket-2/kept", server)).names("batches")
    down = {**server, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    with pytest.raises(PipelineFailed, match=r"s3://bucket/kept/x can't be reached: ") as caught:
        S3Store(Location("s3://bucket/kept", down)).read("x")
    assert "\n" not in str(caught.value)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "server"),
    [
        (Location("/data/kept"), None),
        (Location("s3://bucket/kept"), ""),
        (Location("s3://bucket/kept", {"AWS_ENDPOINT_URL": "http://store:9000"}), "store:9000"),
        (Location("s3://bucket/kept", {"AWS_ENDPOINT_URL": "https://store"}), "store:443"),
    ],
)
def test_server_follows_from_url_and_endpoint(
    place: Location, server: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    assert s3.server_of(place) == server


@pytest.fixture
def unused(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return HOST:PORT where nothing listens, and have no proxy."""
    for name in ("HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_a_server_that_takes_no_connection_is_named_with_the_remedy(unused: str, server: dict[str, str]) -> None:
    s3.check_server(s3_place(server, "kept"))
    said = f"s3://bucket/kept can't be reached: the object store at {unused} does not answer (Connection refused): "
    with pytest.raises(PipelineFailed, match=re.escape(said) + ".*--s3-endpoint"):
        s3.check_server(Location("s3://bucket/kept", {"AWS_ENDPOINT_URL": f"http://{unused}"}))


def test_a_server_behind_a_proxy_is_not_checked(unused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Location("s3://bucket/kept", {"AWS_ENDPOINT_URL": f"http://{unused}"})
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(PipelineFailed, match="does not answer"):
        s3.check_server(place)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with pytest.raises(PipelineFailed, match="does not answer"):
        s3.check_server(place)
    monkeypatch.delenv("no_proxy")
    s3.check_server(place)


@pytest.mark.parametrize("place", [Location("/data/kept"), Location("s3://bucket/kept")])
def test_without_a_named_server_none_is_checked(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    s3.check_server(place)


def test_without_keys_and_a_role_the_keys_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "METADATA", ("127.0.0.1", 1))
    said = "s3://bucket/kept can't be reached: there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    with pytest.raises(PipelineFailed, match=re.escape(said)):
        S3Store(Location("s3://bucket/kept"), {}).exists()
    with pytest.raises(PipelineFailed, match="AWS_ACCESS_KEY_ID is not set, and goes with AWS_SECRET_ACCESS_KEY"):
        S3Store(Location("s3://bucket/kept"), {"AWS_SECRET_ACCESS_KEY": "x"}).exists()
    with pytest.raises(PipelineFailed, match="there are no keys"):
        s3.check_keys({"AWS_SKIP_SIGNATURE": "false"})
    for settings in (KEYS, {"AWS_SKIP_SIGNATURE": "true"}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "token"}):
        s3.check_keys(settings)


def test_settings_go_before_the_environment() -> None:
    environment = {"AWS_REGION": "a", "AWS_ACCESS_KEY_ID": "b", "AWS_PROFILE": "c", "AWS_ENDPOINT_URL_S3": "https://x"}
    assert settings_of({"AWS_REGION": "d"}, environment) == {
        "AWS_REGION": "d", "AWS_ACCESS_KEY_ID": "b", "AWS_ENDPOINT_URL": "https://x",
    }  # fmt: skip
    assert settings_of({}, {"AWS_DEFAULT_REGION": "e"}) == {"AWS_REGION": "e"}
    assert settings_of({"AWS_ENDPOINT_URL": "http://x"}, {})["AWS_ALLOW_HTTP"] == "true"
    with pytest.raises(OptionError, match="storage: 'AWS_REGOIN' is unknown.*AWS_REGION"):
        settings_of({"AWS_REGOIN": "d"}, {})


@for_each("url", ["s3://", "s3://B/x", "s3://bucket/x?y", "s3:///x"])
def test_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(OptionError, match="expected s3://BUCKET/PREFIX"):
        S3Store(Location(url))


def test_missing_package_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ExtraNeeded, match=r"pip install '\.\[s3\]'"):
        S3Store(Location("s3://bucket/kept"))
