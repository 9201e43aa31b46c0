"""A prefix of a bucket on S3, or on another object store that speaks its protocol.

The package `obstore` does the requests. The store needs conditional writes (`If-None-Match: *`), as
AWS has: without them two jobs at once on one prefix would not notice each other.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import socket
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.base.names import did_you_mean
from kqueue.spark.errors import OptionError, PipelineFailed
from kqueue.spark.reachability import connection_error
from kqueue.spark.stores.arrow_files import read_task, write_task
from kqueue.spark.stores.store import Location, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

T = TypeVar("T")
SCHEME = "s3://"
SETTINGS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)  # fmt: skip
"""Settings of locations and environment variables. Without a key the machine's own role is used."""
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
ROLES = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_SKIP_SIGNATURE")
"""Settings that do without keys."""
METADATA = ("169.254.169.254", 80)
"""Address and port at which a machine of AWS requests its role."""
METADATA_TIMEOUT_S = 2.0
ENDPOINT_OF_S3 = "AWS_ENDPOINT_URL_S3"
RETRIES: dict[str, Any] = {
    "max_retries": 15,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
}
"""A server that is overloaded (503) for some ten seconds costs no job; that one is down is told
after as long.
"""
BROKEN_OFF = "response body error"
BROKEN_OFF_MAX = 5
MOVES_AT_ONCE = 16
TASKS_MAX = 200
WORDS_MAX = 300
_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([^?#]*))?")


def check_installed() -> Any:
    """Return the module `obstore`. Raises ExtraNeeded: it is missing."""
    try:
        return importlib.import_module("obstore")
    except ImportError as error:
        raise ExtraNeeded(f"{SCHEME} needs the package obstore ({error}): {install_hint('s3')}") from None


def settings_of(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a location, and those of the environment that it does not name.

    Raises: OptionError: an unknown one.
    """
    for name in given:
        if name not in SETTINGS:
            raise OptionError(f"storage: {name!r} is unknown{did_you_mean(name, SETTINGS)}")
    settings = {name: environment[name] for name in SETTINGS if environment.get(name)}
    if environment.get(ENDPOINT_OF_S3):
        settings["AWS_ENDPOINT_URL"] = environment[ENDPOINT_OF_S3]
    settings |= given
    settings.setdefault("AWS_REGION", settings.pop("AWS_DEFAULT_REGION", "us-east-1"))
    settings.pop("AWS_DEFAULT_REGION", None)
    if settings.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        settings.setdefault("AWS_ALLOW_HTTP", "true")
    return settings


def server_of(place: Location) -> str | None:
    """Return HOST:PORT of an object store, "" if none is named; None: it is another place."""
    endpoint = _endpoint_of(place)
    return endpoint and _host_port(endpoint)


def _endpoint_of(place: Location) -> str | None:
    """Return the URL of an object store's server, "" if none is named; None: another place."""
    return settings_of(place.storage, os.environ).get("AWS_ENDPOINT_URL", "") if place.url.startswith(SCHEME) else None


def _host_port(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"


def check_server(place: Location) -> None:
    """Check that the server of an object store takes connections, if one is named.

    obstore retries for ten seconds, and does not say that the connection was refused. Behind a
    proxy nothing is checked: the proxy alone reaches the server.
    Raises: PipelineFailed: the server takes no connection.
    """
    endpoint = _endpoint_of(place)
    if not endpoint:
        return
    server = _host_port(endpoint)
    if _has_proxy(endpoint) and not urllib.request.proxy_bypass(server):
        return
    error = connection_error(server)
    if error is not None:
        raise PipelineFailed(
            f"{place.url} can't be reached: the object store at {server} does not answer ({error}): start it, or name "
            "the right one with --s3-endpoint or AWS_ENDPOINT_URL"
        )


def _has_proxy(endpoint: str) -> bool:
    """Return whether obstore's requests to a URL go to a proxy, as HTTPS_PROXY and the like say."""
    return not {urlsplit(endpoint).scheme, "all"}.isdisjoint(urllib.request.getproxies())


def check_keys(settings: Mapping[str, str]) -> None:
    """Raise PipelineFailed if requests could not be signed: obstore would try for a minute, and
    speak of an address.
    """
    missing = [name for name in KEYS if name not in settings]
    if not missing or _has_role(settings):
        return
    if len(missing) < len(KEYS):
        raise PipelineFailed(f"{missing[0]} is not set, and goes with {KEYS[1 - KEYS.index(missing[0])]}")
    try:
        socket.create_connection(METADATA, timeout=METADATA_TIMEOUT_S).close()
    except OSError:
        raise PipelineFailed(f"there are no keys: set {' and '.join(KEYS)}; this machine has no role of AWS") from None


def _has_role(settings: Mapping[str, str]) -> bool:
    return any(settings.get(name, "false").lower() != "false" for name in ROLES)


def _repeated(run: Callable[[], T]) -> T:
    """Return what a request returns. Any of those here can be repeated.

    obstore itself repeats requests that were not answered, but not those whose response broke off.
    """
    from obstore.exceptions import GenericError

    for _ in range(BROKEN_OFF_MAX):
        try:
            return run()
        except GenericError as error:
            if BROKEN_OFF not in str(error):
                raise
    return run()


@dataclass(frozen=True)
class Bucket:
    """A prefix of a bucket, as tasks get it: its `store` is made where it is used."""

    name: str
    prefix: str
    settings: Mapping[str, str] = field(repr=False)

    @cached_property
    def store(self) -> Any:
        """Return obstore's store of the prefix."""
        from obstore.store import S3Store as Client

        check_installed()
        config = {name.lower(): value for name, value in self.settings.items() if name != "AWS_ALLOW_HTTP"}
        options = {"allow_http": self.settings.get("AWS_ALLOW_HTTP", "false").lower() == "true"}
        return Client(
            self.name, prefix=self.prefix or None, config=config, client_options=options, retry_config=RETRIES
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "prefix": self.prefix, "settings": dict(self.settings)}

    def get(self, path: str) -> bytes:
        """Return an object. Raises FileNotFoundError."""
        return _repeated(lambda: bytes(check_installed().get(self.store, path).bytes()))

    def put(self, path: str, data: bytes) -> None:
        """Write an object, over another one too."""
        _repeated(lambda: check_installed().put(self.store, path, data))


class S3Store:
    """See `Store`. Objects are moved by a copy on the server and a deletion."""

    renames = False

    def __init__(self, place: Location, environment: Mapping[str, str] = os.environ) -> None:
        match = _URL.fullmatch(place.url)
        if match is None:
            raise OptionError(f"expected s3://BUCKET/PREFIX, found {place.url!r}")
        self._obstore = check_installed()
        self.url = place.url.rstrip("/")
        self.settings: Mapping[str, str] = settings_of(place.storage, environment)
        self._bucket = Bucket(match[1], (match[2] or "").strip("/"), self.settings)
        self._has_keys = False

    def of(self, *parts: str) -> str:
        return "/".join((self.url, *(part for part in parts if part)))

    def exists(self, path: str = "") -> bool:
        with self._told(path):
            if path and self._is_object(path):
                return True
            return _repeated(lambda: any(self._obstore.list(self._bucket.store, path or None, chunk_size=1)))

    def names(self, folder: str) -> list[str]:
        depth = len(folder) + 1 if folder else 0

        def listed() -> list[str]:
            pages = self._obstore.list(self._bucket.store, folder or None)
            return sorted(entry["path"][depth:] for page in pages for entry in page)

        with self._told(folder):
            return _repeated(listed)

    def read(self, path: str) -> bytes | None:
        with self._told(path):
            try:
                return self._bucket.get(path)
            except FileNotFoundError:
                return None

    def put_new(self, path: str, data: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        with self._told(path):
            try:
                _repeated(lambda: self._obstore.put(self._bucket.store, path, data, mode="create"))
            except AlreadyExistsError:
                return self.read(path) == data  # ours: the response to it was lost, and it was sent again
            return True

    def move(self, pairs: Iterable[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(MOVES_AT_ONCE) as threads:
            for _ in threads.map(lambda pair: self._move(*pair), pairs):
                pass

    def delete(self, path: str) -> None:
        with self._told(path):
            paths = [path, *(f"{path}/{name}" for name in self.names(path))]
            _repeated(lambda: self._obstore.delete(self._bucket.store, paths))

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with self._told(path):
            file = _repeated(lambda: self._obstore.open_reader(self._bucket.store, path))
            yield _ObjectFile(file)

    def write(self, frame: DataFrame, folder: str, by: Sequence[str], codec: str = "snappy") -> Written:
        """Let tasks write the objects; those that count tell their names."""
        ordered = frame.sortWithinPartitions(*by) if by else frame
        write = write_task(self._bucket, folder, by, codec)
        told = ordered.mapInArrow(write, "name string, rows bigint").collect()
        return Written(tuple(sorted(row.name for row in told)), sum(row.rows for row in told))

    def frame(self, spark: SparkSession, schema: StructType, folder: str, names: Sequence[str]) -> DataFrame:
        if not names:
            return spark.createDataFrame([], schema)
        from pyspark.sql.pandas.types import to_arrow_schema

        files = spark.createDataFrame([(name,) for name in names], "name string")
        read = read_task(self._bucket, folder, to_arrow_schema(schema, timezone="UTC"))
        return files.repartition(min(len(names), TASKS_MAX)).mapInArrow(read, schema)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold nothing: of two jobs at once, `put_new` lets one win."""
        yield

    def _is_object(self, path: str) -> bool:
        try:
            _repeated(lambda: self._obstore.head(self._bucket.store, path))
        except FileNotFoundError:
            return False
        return True

    def _move(self, old: str, new: str) -> None:
        with self._told(old):
            if not self._is_object(old):
                if self._is_object(new):
                    return
                raise PipelineFailed(f"{self.of(old)} is gone, and was not moved to {self.of(new)}")
            try:
                _repeated(lambda: self._obstore.copy(self._bucket.store, old, new))
            except FileNotFoundError:  # another run finishes the same batch
                return self._move(old, new)
            _repeated(lambda: self._obstore.delete(self._bucket.store, old))

    @contextlib.contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Raise PipelineFailed in place of obstore's errors."""
        from obstore.exceptions import BaseError

        if not self._has_keys:
            try:
                check_keys(self.settings)
            except PipelineFailed as error:
                raise PipelineFailed(f"{self.url} can't be reached: {error}") from None
            self._has_keys = True
        try:
            yield
        except FileNotFoundError as error:
            raise PipelineFailed(f"{self.of(path)} is not there: {_words(error)}") from None
        except BaseError as error:
            is_keyless = KEYS[0] not in self.settings and not _has_role(self.settings)
            hint = (
                f"; no keys are set ({' and '.join(KEYS)}), and the role of this machine counts" if is_keyless else ""
            )
            raise PipelineFailed(f"{self.of(path)} can't be reached: {_words(error)}{hint}") from None


class _ObjectFile(io.RawIOBase):
    """obstore's reader of an object, as Python's files are. size: of the object, in bytes."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file
        self.size = int(file.size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = bytes(self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())


def _words(error: Exception) -> str:
    """Return what the server or obstore said, without the structures that obstore appends."""
    text = str(error).partition("Debug source")[0]
    said = re.findall(r"<Message>(.*?)</Message>", text, re.DOTALL)
    return " ".join((said[0] if said else text).split())[:WORDS_MAX]
