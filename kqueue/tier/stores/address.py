"""URL of an object store -> the store."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from kqueue.base.errors import PluginError
from kqueue.base.registry import BUILT_IN, Registry
from kqueue.tier.errors import TierError
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.memory import MemoryTierStore
from kqueue.tier.stores.plugin_store import OpenTierStore, wrap_opener

URL_LENGTH_MAX = 4096
_SECRET = re.compile(r"secret|password|token|key|sas|credential")
_NO_SECRETS = ("_enabled", "_file", "_id", "_uri")
"""Endings of options that say where a secret is, or what it is called."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)


def open_store(url: str) -> TierStore:
    """Return the store of a URL, without retries (`retries.RetryingStore`).

    No request is sent yet: a bucket that does not exist is an error of the first call.

    Args: url: memory://NAME, file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,
        az://CONTAINER/PREFIX, the last three with options as `?endpoint=...`; or a plugin's.
    Raises:
        TierError: no such URL, or the plugin of this scheme failed to load; the message says what
            was expected, and has no options of the URL.
        ExtraNeeded: the package of the store is missing.
    """
    return opener_of(url)(url)


def check_url(url: str) -> str:
    """Return `url` if its scheme is that of a store. Raises: TierError: as `open_store`.

    Nothing is opened, so the rest of the URL may still be wrong.
    """
    opener_of(url)
    return url


def opener_of(url: str) -> OpenTierStore:
    """Return what opens URLs of this scheme. Raises: as `open_store`."""
    scheme = _SCHEME.match(url)
    if scheme is None or len(url) > URL_LENGTH_MAX:
        raise TierError(
            f"expected the URL of an object store, e.g. s3://BUCKET/PREFIX or file:///PATH, found {location_of(url)!r}"
        )
    name = scheme[1].lower()
    try:
        return TIER_STORES.get(name)
    except PluginError as error:
        raise TierError(f"{location_of(url)}: {error}") from error


def location_of(url: str) -> str:
    """Return a URL for messages: without user, password, options and fragment, at most 200
    characters.
    """
    bare = re.split(r"[?#]", url, maxsplit=1)[0]
    scheme, separator, rest = bare.partition("://")
    if separator:
        host, slash, path = rest.partition("/")
        bare = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    return bare[:200]


def secret_option(url: str) -> str | None:
    """Return the name of an option of the URL that holds a secret, or "user" for one before an "@";
    None: it has none. A setting with such a URL would be shown to who may read settings.
    """
    bare, _, query = url.partition("?")
    for pair in query.partition("#")[0].split("&"):
        name = unquote(pair.partition("=")[0]).lower()
        if _SECRET.search(name) and not name.endswith(_NO_SECRETS):
            return name
    return "user" if "@" in bare.partition("://")[2].partition("/")[0] else None


def _memory(url: str) -> TierStore:
    return MemoryTierStore(_without_options(url).removeprefix("memory://").rstrip("/"))


def _folder(url: str) -> TierStore:
    from kqueue.tier.stores.folder import FolderTierStore  # on first use: most brokers have another store, or none

    parts = urlsplit(_without_options(url))
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not PurePosixPath(path).is_absolute() or "\0" in path:
        raise TierError(f"{location_of(url)}: expected file:///PATH with an absolute path, e.g. file:///mnt/tier")
    return FolderTierStore.of_path(path)


def _cloud(url: str) -> TierStore:
    from kqueue.tier.stores.cloud import open_cloud_store

    return open_cloud_store(url)


def _without_options(url: str) -> str:
    if "?" in url or "#" in url:
        raise TierError(f"{location_of(url)}: this store has no options: leave out what follows the '?' or '#'")
    return url


TIER_STORES: Registry[OpenTierStore] = Registry("kqueue.tiers", "tier store", guard=wrap_opener)
"""URL scheme -> a callable that takes a URL and returns a TierStore."""
for _name, _open in (("memory", _memory), ("file", _folder), ("s3", _cloud), ("gs", _cloud), ("az", _cloud)):
    TIER_STORES.add(_name, _open, origin=BUILT_IN)
