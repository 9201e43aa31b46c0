"""URLs of cloud stores: buckets, prefixes, options, profiles."""

from __future__ import annotations

import sys

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.tests.tables import for_each
from kqueue.tier.errors import TierError
from kqueue.tier.stores.cloud_address import DEFAULTS, CloudAddress

SECRET = "hunter2"


def parsed(url: str, **environment: str) -> CloudAddress:
    return CloudAddress.parse(url, environment)


@for_each(
    "url, expected",
    [
        ("s3://bucket", ("s3", "bucket", "", "s3://bucket")),
        ("s3://bucket/", ("s3", "bucket", "", "s3://bucket")),
        ("S3://bucket/a/b/", ("s3", "bucket", "a/b", "s3://bucket/a/b")),
        ("gs://my_bucket.x/a", ("gs", "my_bucket.x", "a", "gs://my_bucket.x/a")),
        ("az://$web/a?account_name=me", ("az", "$web", "a", "az://$web/a")),
    ],
)
def test_url_has_bucket_and_prefix(url: str, expected: tuple[str, ...]) -> None:
    address = parsed(url)
    assert (address.scheme, address.bucket, address.prefix, address.location) == expected


def test_options_go_to_the_service_or_the_client() -> None:
    address = parsed("s3://b-1/p?endpoint=http://127.0.0.1:9000&Region=eu&timeout=5s&http2_only=True")
    assert address.config == {"endpoint": "http://127.0.0.1:9000", "region": "eu"}
    assert address.client_options == {**DEFAULTS, "timeout": "5s", "http2_only": True, "allow_http": True}


def test_http_is_allowed_for_the_endpoint_that_was_named_only() -> None:
    assert "allow_http" not in parsed("s3://b-1?endpoint=https://x").client_options
    assert "allow_http" not in parsed("s3://b-1").client_options
    assert parsed("s3://b-1?endpoint=http://x&allow_http=false").client_options["allow_http"] is False
    assert parsed("s3://b-1", AWS_ENDPOINT_URL="http://x").client_options["allow_http"] is True


@for_each(
    "url, message",
    [
        ("s3://", "expected s3://BUCKET/PREFIX"),
        ("s3:///prefix", "expected s3://BUCKET/PREFIX"),
        ("s3://a b/prefix", "expected s3://BUCKET/PREFIX"),
        ("s3://[::1/prefix", "expected s3://BUCKET/PREFIX"),
        ("s3://bucket/prefix#x", "expected s3://BUCKET/PREFIX"),
        ("az://a/../b", "expected az://CONTAINER/PREFIX"),
        ("s3://bucket/a//b", "expected parts of letters"),
        ("s3://bucket/a/../b", "can't be the name of a file"),
        ("s3://bucket/" + "a" * 401, "at most 400 characters of PREFIX"),
        (f"s3://key:{SECRET}@bucket/p", "credentials are options or variables"),
        (f"s3://bucket?{SECRET}", "expected at most 50 options as NAME=VALUE"),
        ("s3://bucket?" + "&".join(f"o{number}={SECRET}" for number in range(51)), "at most 50 options"),
        ("s3://bucket?region=a&Region=b", "the option 'Region' is there twice"),
        ("s3://bucket?allow_http=maybe", "allow_http: expected true or false, found 'maybe'"),
        ("gs://bucket?profile=x", "a profile is for s3:// only"),
    ],
)
def test_wrong_url_is_refused_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(TierError) as failure:
        parsed(url)
    assert message in str(failure.value)
    assert SECRET not in str(failure.value)
    assert len(str(failure.value)) < 700


def test_secrets_of_options_are_known_and_not_shown() -> None:
    address = parsed(f"s3://bucket?access_key_id=AKIA1&secret_access_key={SECRET}&session_token=token9&region=eu-1")
    assert set(address.secrets) == {"AKIA1", SECRET, "token9"}
    assert SECRET not in repr(address)
    assert "eu-1" not in address.secrets


def test_profile_is_used_where_there_are_no_keys() -> None:
    assert parsed("s3://bucket?profile=mine").profile == "mine"
    assert parsed("s3://bucket", AWS_PROFILE="mine").profile == "mine"
    assert parsed("s3://bucket", AWS_PROFILE="mine", AWS_ACCESS_KEY_ID="x").profile is None
    assert parsed("s3://bucket?access_key_id=x", AWS_PROFILE="mine").profile is None
    assert parsed("gs://bucket", AWS_PROFILE="mine").profile is None
    assert parsed("s3://bucket").profile is None


def test_profile_without_boto3_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ExtraNeeded, match="the profile 'mine' needs the package boto3.*or set AWS_ACCESS_KEY_ID"):
        parsed("s3://bucket?profile=mine").credential_provider()
