"""A cloud store whose server answers with errors, late or with too few bytes.

`compat_tests/tiered/` tests it with servers of others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kqueue.tests.tables import for_each
from kqueue.tests.tier.stores.scripted_server import Answer, ScriptedServer, failure, scripted_server
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores.cloud import CloudTierStore, open_cloud_store

pytest.importorskip("obstore")


@pytest.fixture(scope="module")
def running() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def server(running: ScriptedServer) -> ScriptedServer:
    running.answers.clear()
    running.requests.clear()
    return running


@pytest.fixture
def store(server: ScriptedServer) -> Iterator[CloudTierStore]:
    opened = open_cloud_store(server.url())
    yield opened
    opened.close()


def calls(store: CloudTierStore) -> dict[str, Callable[[], object]]:
    return {
        "put": lambda: store.put("a", [b"1"], 1),
        "put_if": lambda: store.put_if("a", b"1", '"0"'),
        "get": lambda: store.get("a", max_bytes=10),
        "get_range": lambda: store.get_range("a", 0, 1),
        "list": lambda: list(store.list("a")),
        "list_folders": lambda: store.list_folders("a"),
        "delete": lambda: store.delete(["a"]),
    }


def test_every_call_sends_one_request_and_no_second_one_when_it_fails(
    server: ScriptedServer, store: CloudTierStore
) -> None:
    for name, call in calls(store).items():
        for answer, expected in (
            (failure(503, "SlowDown"), TierUnavailable),
            (failure(500, "InternalError"), TierUnavailable),
            (failure(403, "AccessDenied"), TierDenied),
            (failure(400, "ExpiredToken"), TierDenied),
            (failure(404, "NoSuchBucket"), TierError),
            (failure(400, "MalformedXML"), TierError),
        ):
            server.requests.clear()
            server.answers[:] = [answer]
            with pytest.raises(TierError) as raised:
                call()
            assert type(raised.value) is expected, f"{name} after {answer}"
            assert len(server.requests) == 1, f"{name} after {answer}"
            assert "hunter2" not in str(raised.value)
            assert str(raised.value).startswith("s3://bucket/p/"), f"{name}: {raised.value}"


def test_conditional_put_sends_its_condition(server: ScriptedServer, store: CloudTierStore) -> None:
    assert store.put_if("a", b"1", None) == '"1"'
    assert store.put_if("a", b"1", '"0"') == '"1"'
    assert server.requests == ["PUT /bucket/p/a If-None-Match: *", 'PUT /bucket/p/a If-Match: "0"']
    for status in (409, 412):
        for expected in (None, '"0"'):
            server.answers[:] = [failure(status, "PreconditionFailed")]
            with pytest.raises(ObjectChanged, match=r"s3://bucket/p/a: expected (no object|version .0.)"):
                store.put_if("a", b"1", expected)


def test_conditional_put_with_an_unknown_key_id_is_denied(server: ScriptedServer, store: CloudTierStore) -> None:
    """versitygw answers so; a writer that took it for a changed object would never stop."""
    for expected in (None, '"0"'):
        server.answers[:] = [failure(404, "XAdminUserNotFound")]
        with pytest.raises(TierDenied):
            store.put_if("a", b"1", expected)


def test_put_to_what_is_not_there_is_no_missing_object(server: ScriptedServer, store: CloudTierStore) -> None:
    server.answers[:] = [failure(404, "NoSuchKey")]
    with pytest.raises(TierError, match="after a put: check the URL") as raised:
        store.put("a", [b"1"], 1)
    assert type(raised.value) is TierError


def test_conditions_of_google_are_generations(server: ScriptedServer, tmp_path: Path) -> None:
    key = {
        "gcs_base_url": f"http://{server.address}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    (tmp_path / "key.json").write_text(json.dumps(key))
    store = open_cloud_store(f"gs://bucket/p?service_account={tmp_path}/key.json&allow_http=true")
    headers = (*Answer().headers, ("x-goog-generation", "17"))
    server.answers[:] = [Answer(200, b"", headers)] * 2 + [failure(412, "PreconditionFailed")]
    assert store.put_if("a", b"1", None) == "17"
    assert store.put_if("a", b"1", "16") == "17"
    with pytest.raises(ObjectChanged):
        store.put_if("a", b"1", "15")
    assert [request.split()[2:] for request in server.requests] == [
        ["x-goog-if-generation-match:", generation] for generation in ("0", "16", "15")
    ]
    server.answers[:] = [failure(404, "NoSuchKey"), Answer(204)]
    store.delete(["missing", "there"])
    assert len(server.requests) == 5


def test_conditions_of_azure_are_etags(server: ScriptedServer) -> None:
    account = "account_name=me&account_key=aHVudGVyMg=="
    store = open_cloud_store(f"az://container/p?{account}&endpoint=http://{server.address}")
    server.answers[:] = [Answer(201), Answer(201), failure(412, "ConditionNotMet"), failure(409, "BlobAlreadyExists")]
    assert store.put_if("a", b"1", None) == '"1"'
    assert store.put_if("a", b"1", '"0"') == '"1"'
    with pytest.raises(ObjectChanged):
        store.put_if("a", b"1", '"0"')
    with pytest.raises(ObjectChanged):
        store.put_if("a", b"1", None)
    assert [request.split()[2:] for request in server.requests] == [
        ["If-None-Match:", "*"], ["If-Match:", '"0"'], ["If-Match:", '"0"'], ["If-None-Match:", "*"]
    ]  # fmt: skip


@for_each("version", ["", "*", '"1", "2"', "a b", "1,2", '"1"\r\nX: y'])
def test_text_that_is_no_version_is_never_sent(version: str) -> None:
    with scripted_server() as server:
        store = open_cloud_store(server.url())
        with pytest.raises(ObjectChanged, match="is no version of this store"):
            store.put_if("a", b"1", version)
        assert server.requests == []


def test_answer_without_version_is_refused(server: ScriptedServer, store: CloudTierStore) -> None:
    server.answers[:] = [Answer(200, b"1", (("Last-Modified", "Sat, 28 Nov 2026 22:43:08 GMT"),))]
    with pytest.raises(TierError, match="ETag|e_tag"):
        store.get("a", max_bytes=10)


def test_body_that_breaks_off_is_unavailable(server: ScriptedServer, store: CloudTierStore) -> None:
    server.answers[:] = [Answer(200, b"half", missing=4)]
    with pytest.raises(TierUnavailable):
        store.get("a", max_bytes=10)


def test_object_above_the_limit_is_not_read(server: ScriptedServer, store: CloudTierStore) -> None:
    server.answers[:] = [Answer(200, b"1234567890", missing=1 << 40)]
    with pytest.raises(TierCorrupt, match="at most 100 were expected"):
        store.get("a", max_bytes=100)


def test_range_that_is_shorter_is_corrupt(server: ScriptedServer, store: CloudTierStore) -> None:
    headers = (*Answer().headers, ("Content-Range", "bytes 5-7/8"))
    server.answers[:] = [Answer(206, b"567", headers)]
    with pytest.raises(TierCorrupt, match="expected 10"):
        store.get_range("a", 5, 10)
    assert server.requests == ["GET /bucket/p/a Range: bytes=5-14"]
    server.answers[:] = [failure(416, "InvalidRange")]
    with pytest.raises(TierCorrupt, match="ends before the range"):
        store.get_range("a", 50, 10)


def test_list_that_is_not_in_order_is_refused(server: ScriptedServer, store: CloudTierStore) -> None:
    rows = "".join(
        f"<Contents><Key>p/{key}</Key><LastModified>2026-11-28T22:43:08.000Z</LastModified><Size>1</Size></Contents>"
        for key in ("b", "umläut", "a")
    )
    server.answers[:] = [Answer(200, f"<ListBucketResult>{rows}</ListBucketResult>".encode())]
    entries = store.list("")
    assert next(entries).key == "b"
    with pytest.raises(TierError, match="lists a after b, expected the order of keys"):
        next(entries)


def test_missing_object_is_not_found(server: ScriptedServer, store: CloudTierStore) -> None:
    server.answers[:] = [failure(404, "NoSuchKey")] * 2
    with pytest.raises(ObjectNotFound, match="s3://bucket/p/a does not exist"):
        store.get("a", max_bytes=10)
    with pytest.raises(ObjectNotFound, match="s3://bucket/p/a does not exist"):
        store.get_range("a", 0, 1)


def test_server_that_is_away_is_unavailable() -> None:
    with scripted_server() as server:
        url = server.url()
    for name, call in calls(open_cloud_store(url)).items():
        with pytest.raises(TierUnavailable) as raised:
            call()
        assert "s3://bucket/p" in str(raised.value), name


@for_each(
    "options, message",
    [
        ("&endpoin=x", "Configuration key: 'endpoin' is not valid"),
        ("&connect_timeout=soon", "soon"),
    ],
)
def test_unknown_option_is_refused_when_the_store_is_opened(options: str, message: str) -> None:
    with pytest.raises(TierError, match=message) as raised:
        open_cloud_store(f"s3://bucket/p?access_key_id=a&secret_access_key=hunter2{options}")
    assert "hunter2" not in str(raised.value)


def test_http_that_is_not_allowed_says_so(server: ScriptedServer) -> None:
    with pytest.raises(TierError, match="allow_http=true"):
        open_cloud_store(f"{server.url()}&allow_http=false").get("a", max_bytes=1)
