"""A missing bucket, objects of others in it, and uploads that are given up."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from compat_tests.tiered.servers import ACCESS_KEY, BUCKET, LOOPBACK, SECRET_KEY, Server
from kqueue.tier.errors import ObjectNotFound, TierError
from kqueue.tier.stores.address import open_store
from kqueue.tier.stores.cloud import SINGLE_PUT_MAX


def client(server: Server) -> object:
    return boto3.client(
        "s3",
        endpoint_url=f"http://{LOOPBACK}:{server.port}",
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )


def test_missing_bucket_is_named_by_every_call(server: Server, prefix: str) -> None:
    store = open_store(server.url(prefix).replace(BUCKET, "no-such-bucket"))
    for call in (
        lambda: store.put("a", [b"1"], 1),
        lambda: store.put_if("a", b"1", None),
        lambda: store.put_if("a", b"1", "1"),
        lambda: store.get("a", max_bytes=1),
        lambda: store.get_range("a", 0, 1),
        lambda: list(store.list("")),
        lambda: store.list_folders(""),
    ):
        with pytest.raises(TierError, match="no-such-bucket") as failure:
            call()
        assert type(failure.value) is TierError


def test_objects_of_others_are_not_listed(server: Server, prefix: str) -> None:
    store = open_store(server.url(prefix))
    store.put("a/b", [b"1"], 1)
    for name in ("a/ünicode", "a/with space", "a/per%20cent", "~x/y"):
        client(server).put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=b"x")  # type: ignore[attr-defined]
    assert [entry.key for entry in store.list("")] == ["a/b"]
    assert store.list_folders("") == ["a"]


def test_upload_that_is_given_up_leaves_neither_object_nor_parts(server: Server, prefix: str) -> None:
    size = SINGLE_PUT_MAX + 12_000_000

    def parts() -> Iterator[bytes]:
        for _ in range(size // 1_000_000):
            yield bytes(1_000_000)
        raise KeyError("the source failed")

    store = open_store(server.url(prefix))
    with pytest.raises(KeyError, match="the source failed"):
        store.put("big", parts(), size)
    with pytest.raises(ObjectNotFound):
        store.get("big", max_bytes=size)
    uploads = client(server).list_multipart_uploads(Bucket=BUCKET).get("Uploads") or []  # type: ignore[attr-defined]
    assert uploads == []


def test_big_object_is_an_upload_of_parts(server: Server, prefix: str) -> None:
    size = SINGLE_PUT_MAX + 1
    store = open_store(server.url(prefix))
    store.put("big", [bytes(size)], size)
    tag = client(server).head_object(Bucket=BUCKET, Key=f"{prefix}/big")["ETag"]  # type: ignore[attr-defined]
    assert tag.strip('"').endswith("-3"), "three parts of 8 MiB and less"
    assert store.get("big", max_bytes=size).version == tag
