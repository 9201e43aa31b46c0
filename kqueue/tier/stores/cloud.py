"""Objects in S3, Google Cloud Storage and Azure, and in stores that speak their protocols.

The package `obstore` sends the requests. Its own retries are off, but for the parts of a multipart
upload: a conditional put that it sent twice would be refused by its own first request. Callers add
`retries.RetryingStore`.

Versions are ETags (S3, Azure: `If-Match`) and generations (Google). Puts above `SINGLE_PUT_MAX` are
multipart uploads. An upload that a crash cut off is never an object, but its parts cost storage
until a lifecycle rule of the bucket removes them (`AbortIncompleteMultipartUpload`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.tier.errors import ObjectChanged, ObjectNotFound, TierCorrupt, TierError
from kqueue.tier.stores.cloud_address import CloudAddress
from kqueue.tier.stores.cloud_errors import CloudErrors
from kqueue.tier.stores.contract import (
    Buffer,
    Object,
    ObjectEntry,
    Version,
    check_key,
    check_prefix,
    check_range,
    counted_parts,
    is_key,
    joined,
)

T = TypeVar("T")
SINGLE_PUT_MAX = 16 << 20
CHUNK_SIZE = 8 << 20
CHUNKS_MAX = 9_000
"""S3 takes 10,000 parts of one upload."""
_VERSION = re.compile(r'(?:W/)?"?[^\s",*]+"?')
"""One ETag or generation: an empty text, a list or "*" as If-Match would match other versions."""
CHUNKS_AT_ONCE = 4
DELETES_AT_ONCE = 1_000
NO_RETRIES: dict[str, Any] = {"max_retries": 0}
CHUNK_RETRIES: dict[str, Any] = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=5), "base": 2},
}


def open_cloud_store(url: str) -> CloudTierStore:
    """Return the store of s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX.

    Credentials are looked for where the tools of these services look: in the options of the URL,
    the variables of the environment, the profile (S3; needs boto3), the role of the machine.

    Raises: TierError: another URL, an unknown option, or an impossible value. ExtraNeeded.
    """
    return CloudTierStore(CloudAddress.parse(url))


class CloudTierStore:
    """See `contract.TierStore`.

    Raises: TierError, ExtraNeeded: as `open_cloud_store`.
    """

    def __init__(self, address: CloudAddress) -> None:
        self.location = address.location
        self._obstore = _obstore(address.location)
        self._errors = CloudErrors(address, self._obstore.exceptions)
        self._deletes_many = address.scheme == "s3"
        self._version_field = "version" if address.scheme == "gs" else "e_tag"
        self._single = self._opened(address, NO_RETRIES)
        self._multipart = self._opened(address, CHUNK_RETRIES)
        self._is_closed = False

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        check_key(key)
        if size <= SINGLE_PUT_MAX:
            body = joined(parts, size)
            self._write(key, lambda: self._obstore.put(self._single, key, body, use_multipart=False))
            return
        source = _UploadParts(counted_parts(parts, size))
        try:
            self._write(
                key,
                lambda: self._obstore.put(
                    self._multipart,
                    key,
                    source,
                    use_multipart=True,
                    chunk_size=max(CHUNK_SIZE, -(-size // CHUNKS_MAX)),
                    max_concurrency=CHUNKS_AT_ONCE,
                ),
            )
        except BaseException:
            if source.error is not None:
                raise source.error from None
            raise

    def put_if(self, key: str, body: bytes, expected: Version | None) -> Version:
        check_key(key)
        if expected is not None and not _VERSION.fullmatch(expected):
            raise ObjectChanged(f"{self._name(key)}: {expected!r:.100} is no version of this store")
        mode = "create" if expected is None else {self._version_field: expected}
        exceptions = self._obstore.exceptions

        def put() -> Any:
            try:
                return self._obstore.put(self._single, key, body, mode=mode, use_multipart=False)
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
                if self._errors.is_something_else_missing(error):  # obstore takes any 404 for a missing object
                    raise
                what = "no object" if expected is None else f"version {expected:.100}"
                raise ObjectChanged(f"{self._name(key)}: expected {what}: {self._errors.text(error)}") from None

        return self._version(key, self._write(key, put))

    def get(self, key: str, *, max_bytes: int) -> Object:
        check_key(key)

        def get() -> Object:
            result = self._obstore.get(self._single, key)
            if result.meta["size"] > max_bytes:
                raise TierCorrupt(
                    f"{self._name(key)} has {result.meta['size']} bytes, at most {max_bytes} were expected"
                )
            return Object(bytes(result.bytes()), self._version(key, result.meta))

        return self._call(key, get)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        check_range(start, length)
        data = self._call(key, lambda: bytes(self._obstore.get_range(self._single, key, start=start, length=length)))
        if len(data) != length:
            raise TierCorrupt(f"{self._name(key)} ended {len(data)} bytes after {start}, expected {length}")
        return data

    def list(self, prefix: str) -> Iterator[ObjectEntry]:
        folder = check_prefix(prefix)
        self._check_open()
        return self._listed(folder)

    def _listed(self, folder: str) -> Iterator[ObjectEntry]:
        chunks = self._call(folder, lambda: self._obstore.list(self._single, folder or None, chunk_size=1000))
        last = ""
        while chunk := self._call(folder, lambda: next(chunks, None)):
            for meta in chunk:
                key = meta["path"]
                if not is_key(key):
                    continue
                if key <= last:
                    raise TierError(
                        f"{self._name(folder)}: the store lists {key} after {last}, expected the order of keys: "
                        "kqueue can't use such a store (S3: no directory buckets)"
                    )
                last = key
                yield ObjectEntry(key, meta["size"], int(meta["last_modified"].timestamp() * 1000))

    def list_folders(self, prefix: str) -> Sequence[str]:
        folder = check_prefix(prefix)
        result = self._call(folder, lambda: self._obstore.list_with_delimiter(self._single, folder or None))
        names = (path.rstrip("/").rpartition("/")[2] for path in result["common_prefixes"])
        return sorted(name for name in names if is_key(name))

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        if self._deletes_many:
            for start in range(0, len(keys), DELETES_AT_ONCE):
                batch = list(keys[start : start + DELETES_AT_ONCE])
                self._call(batch[0], lambda: self._obstore.delete(self._single, batch))  # noqa: B023
        else:
            for key in keys:
                self._call(key, lambda: self._delete(key))  # noqa: B023

    def close(self) -> None:
        self._is_closed = True
        self._single = self._multipart = None

    def _delete(self, key: str) -> None:
        # Of several keys Google and Azure stop at the first one that is missing.
        try:
            self._obstore.delete(self._single, key)
        except FileNotFoundError as error:
            if self._errors.is_something_else_missing(error):
                raise

    def _opened(self, address: CloudAddress, retries: dict[str, Any]) -> Any:
        kinds = importlib.import_module("obstore.store")
        kind = {"s3": kinds.S3Store, "gs": kinds.GCSStore, "az": kinds.AzureStore}[address.scheme]
        named = {"credential_provider": address.credential_provider()} if address.profile else {}
        try:
            return kind(
                address.bucket,
                prefix=address.prefix or None,
                config=dict(address.config),
                client_options=dict(address.client_options),
                retry_config=retries,
                **named,
            )
        except (self._obstore.exceptions.BaseError, ValueError, TypeError) as error:
            raise TierError(f"{self.location}: {self._errors.text(error)}") from None

    def _version(self, key: str, meta: Any) -> Version:
        version = meta[self._version_field]
        if not version:
            raise TierError(
                f"{self._name(key)}: the store gave no {self._version_field}: kqueue can't use such a store"
            )
        return str(version)

    def _call(self, key: str, run: Callable[[], T]) -> T:
        """Return what `run` returns. Raises: the errors of the contract in place of obstore's."""
        self._check_open()
        try:
            return run()
        except (self._obstore.exceptions.BaseError, OSError) as error:
            raise self._errors.translated(self._name(key), error) from None

    def _write(self, key: str, run: Callable[[], T]) -> T:
        """Do as `_call`, for a put: a 404 says that something else than the object is missing."""
        try:
            return self._call(key, run)
        except ObjectNotFound as error:
            raise TierError(f"{error}, after a put: check the URL and its options") from None

    def _name(self, key: str) -> str:
        return f"{self.location}/{key}"

    def _check_open(self) -> None:
        if self._is_closed:
            raise TierError(f"{self.location} is closed")


class _UploadParts:
    """The parts of an object, read once, with the error that they raised themselves."""

    def __init__(self, parts: Iterator[Buffer]) -> None:
        self._parts = parts
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[Buffer]:
        try:
            yield from self._parts
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise


def _obstore(location: str) -> Any:
    """Return the module `obstore`. Raises: ExtraNeeded: it is missing."""
    try:
        return importlib.import_module("obstore")
    except ImportError as error:
        raise ExtraNeeded(f"{location} needs the package obstore ({error}): {install_hint('tiered')}") from None
