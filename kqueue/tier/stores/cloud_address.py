"""Bucket, prefix and options of the URL of a cloud store.

    s3://BUCKET/PREFIX?endpoint=http://127.0.0.1:9000&region=eu-central-1
    gs://BUCKET/PREFIX?service_account=/etc/kqueue/key.json
    az://CONTAINER/PREFIX?account_name=ACCOUNT

Options have obstore's names: those of its HTTP client (`timeout`, `allow_http`, ...), and those of
the service (`region`, `access_key_id`, ...). `profile` is ours: a profile of ~/.aws.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kqueue.base.errors import ExtraNeeded
from kqueue.tier.errors import TierError
from kqueue.tier.stores.contract import check_key

OPTIONS_MAX = 50
PREFIX_LENGTH_MAX = 400
"""With the longest key below the 1024 characters that stores allow."""
CLIENT_OPTIONS = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_excludes", "proxy_url", "randomize_addresses", "read_timeout", "timeout",
    "user_agent",
})  # fmt: skip
DEFAULTS = {"connect_timeout": "5s", "timeout": "60s"}
"""`timeout` is of one whole request, a part of an upload (8 MiB) or a range."""
ENDPOINTS = (
    "endpoint", "endpoint_url", "aws_endpoint", "aws_endpoint_url", "azure_endpoint", "azure_storage_endpoint",
    "base_url",
)  # fmt: skip
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_FLAGS = frozenset({"allow_http", "allow_invalid_certificates", "http1_only", "http2_only", "randomize_addresses"})
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]{1,221}", re.ASCII)
_SECRET = re.compile(r"key|secret|token|password|sas|credential|service_account")


@dataclass(frozen=True)
class CloudAddress:
    """A parsed URL.

    Attributes:
        scheme: s3, gs or az.
        prefix: "" or a path without slashes at its ends.
        config: options of the service, for obstore.
        client_options: options of the HTTP client, for obstore.
        profile: of ~/.aws, which gives the credentials; None: obstore finds them.
    """

    scheme: str
    bucket: str
    prefix: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    profile: str | None = None

    @classmethod
    def parse(cls, url: str, environment: Mapping[str, str] = os.environ) -> CloudAddress:
        """Return the address of a URL.

        Raises: TierError: it is none; says what was expected, without secrets.
        """
        bare, _, query = url.partition("?")
        try:
            parts = urlsplit(bare)
        except ValueError:
            parts = urlsplit("")
        scheme = parts.scheme.lower()
        expected = f"expected {scheme or 's3'}://{'CONTAINER' if scheme == 'az' else 'BUCKET'}/PREFIX"
        if "@" in parts.netloc:
            raise TierError(f"{expected}, found an @: credentials are options or variables of the environment")
        prefix = parts.path.strip("/")
        if not _BUCKET.fullmatch(parts.netloc) or parts.fragment or len(prefix) > PREFIX_LENGTH_MAX:
            raise TierError(f"{expected}, with at most {PREFIX_LENGTH_MAX} characters of PREFIX, found {bare[:200]!r}")
        try:
            prefix = prefix and check_key(prefix)
        except ValueError as error:
            raise TierError(f"{expected}: {error}") from None
        options = _options(f"{scheme}://{parts.netloc}", query)
        profile = options.pop("profile", None)
        if scheme != "s3" and profile is not None:
            raise TierError(f"{scheme}://{parts.netloc}: a profile is for s3:// only")
        if scheme == "s3" and profile is None and not _has_keys(options, environment):
            profile = environment.get("AWS_PROFILE") or None
        client_options: dict[str, Any] = dict(DEFAULTS)
        if any(options.get(name, "").startswith("http://") for name in ENDPOINTS) or any(
            environment.get(name, "").startswith("http://") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        ):
            client_options["allow_http"] = True
        for name in CLIENT_OPTIONS & set(options):
            client_options[name] = _client_value(f"{scheme}://{parts.netloc}", name, options.pop(name))
        return cls(scheme, parts.netloc, prefix, options, client_options, profile)

    @property
    def location(self) -> str:
        """The URL without options."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values of options that messages must not have."""
        return tuple(value for name, value in self.config.items() if _SECRET.search(name) and len(value) > 3)

    def credential_provider(self) -> Any:
        """Return what asks the profile for credentials, again when they expire.

        Raises: ExtraNeeded: boto3 is missing. TierError: there is no such profile.
        """
        try:
            boto3 = importlib.import_module("boto3")
            auth = importlib.import_module("obstore.auth.boto3")
        except ImportError as error:
            raise ExtraNeeded(
                f"{self.location}: the profile {self.profile!r} needs the package boto3 ({error}): "
                "pip install boto3, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from None
        try:
            return auth.Boto3CredentialProvider(boto3.Session(profile_name=self.profile))
        except Exception as error:  # botocore's own classes; the text has names of profiles only
            raise TierError(f"{self.location}: the profile {self.profile!r} can't be used: {error!s:.200}") from None


def _options(location: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=OPTIONS_MAX)
    except ValueError:
        raise TierError(f"{location}: expected at most {OPTIONS_MAX} options as NAME=VALUE&NAME=VALUE") from None
    options = {}
    for name, value in pairs:
        if name.lower() in options:
            raise TierError(f"{location}: the option {name[:50]!r} is there twice")
        options[name.lower()] = value
    return options


def _client_value(location: str, name: str, value: str) -> str | bool:
    if name not in _FLAGS:
        return value
    if value.lower() not in _TRUTHS:
        raise TierError(f"{location}: {name}: expected true or false, found {value[:50]!r}")
    return _TRUTHS[value.lower()]


def _has_keys(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    return bool(environment.get("AWS_ACCESS_KEY_ID")) or not {
        "access_key_id", "aws_access_key_id", "skip_signature", "aws_skip_signature",
    }.isdisjoint(options)  # fmt: skip
