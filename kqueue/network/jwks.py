"""The public keys of an identity provider (JWKS), read from a file or by HTTP in a job, again and
again. Source: Kafka's RefreshingHttpsJwks; RFC 7517.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request

from kqueue.base import events
from kqueue.base.errors import SettingError
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.timers import Timer
from kqueue.config.http_client import HttpOptions, read_url
from kqueue.config.tls_client import TlsClientSettings, client_context
from kqueue.config.tls_properties import tls_options
from kqueue.security.sasl.token_validators import JwksConfig
from kqueue.security.sasl.tokens import load_joserfc

KEYS_BYTES_MAX = 1024 * 1024
TIMEOUT_S = 5.0
SCHEMES = ("file", "http", "https")
logger = logging.getLogger("kqueue.security")


class JwksKeys:
    """The keys of one URL, a `SigningKeys`. The last ones that could be read stay in use.

    Args:
        call_later: calls a function after so many milliseconds.
        fetch: reads a URL; runs in a job. None: `fetch_text`, with TLS as the configuration says.
    Raises: SettingError: not a URL, its TLS can't be used, or joserfc is not installed.
    """

    def __init__(
        self,
        config: JwksConfig,
        jobs: Jobs,
        call_later: Callable[[float, Callable[[], object]], Timer],
        fetch: Callable[[str], str] | None = None,
    ) -> None:
        scheme = urlsplit(config.url).scheme
        if scheme not in SCHEMES:
            raise SettingError(f"sasl.oauthbearer.jwks.endpoint.url: expected a URL of {', '.join(SCHEMES)}")
        self.key_set: Any = None
        self._config = config
        self._read = load_joserfc()
        self._jobs = jobs
        self._call_later = call_later
        self._fetch = fetch or _fetch_by(config, scheme)
        self._failures = 0
        self._under_way = self._is_early = False
        self._timer: Timer | None = None
        if scheme == "file":
            self._read_now()
        else:
            self._refresh()

    def is_missing(self) -> None:
        """Read the keys again, at most once in the longest time between two attempts."""
        if not (self._under_way or self._is_early or self._failures):
            self._is_early = True
            self._schedule(0)

    def close(self) -> None:
        """Read no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._under_way = True

    def _read_now(self) -> None:
        """Read a file at the start, so that a wrong one ends it, and the first client is served."""
        try:
            key_set = self._read(self._fetch(self._config.url))
        except Exception as error:
            place = f"sasl.oauthbearer.jwks.endpoint.url={shown(self._config.url)}"
            raise SettingError(f"{place}: expected a JSON Web Key Set: {reason_of(error)}") from None
        self._finished(key_set, None)

    def _refresh(self) -> None:
        if self._under_way:
            return
        self._under_way = True
        config, fetch, read = self._config, self._fetch, self._read
        self._jobs.submit(IoJob("read JWKS", lambda: read(fetch(config.url)), self._finished, "jwks"))

    def _finished(self, key_set: Any, error: BaseException | None) -> None:
        self._under_way = False
        config = self._config
        if error is None:
            self.key_set = key_set
            self._failures = 0
            if self._is_early:  # a token with a made-up key can't make the broker ask all the time
                self._call_later(config.retry_ms_max, self._allow_early)
            self._schedule(config.refresh_ms)
            return
        wait_ms = min(config.retry_ms * 2**self._failures, config.retry_ms_max)
        self._failures = min(self._failures + 1, 30)
        events.JWKS_UNREADABLE.log(
            logger,
            "cannot read the keys of the identity provider at %s: %s; next attempt in %d ms",
            url=shown(config.url),
            error=reason_of(error),
            retry_ms=wait_ms,
        )
        self._schedule(wait_ms)

    def _allow_early(self) -> None:
        self._is_early = False

    def _schedule(self, ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._call_later(ms, self._refresh)


def shown(url: str) -> str:
    """Return a URL without what may be secret: user, password, query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def reason_of(error: BaseException) -> str:
    """Return why keys can't be read."""
    return str(getattr(error, "reason", None) or error) or type(error).__name__


def fetch_text(url: str, tls: TlsClientSettings | None = None) -> str:
    """Return what a URL has. Blocks; for a job. Raises: OSError, ValueError, SettingError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            data = file.read(KEYS_BYTES_MAX + 1)
        if len(data) > KEYS_BYTES_MAX:
            raise ValueError(f"expected at most {KEYS_BYTES_MAX} bytes")
    else:
        request = Request(url, headers={"Accept": "application/json"})
        try:
            data = read_url(request, HttpOptions(KEYS_BYTES_MAX, TIMEOUT_S, tls, follows=True))
        except HTTPError as error:
            error.close()
            raise
    return str(data, "utf-8")


def _fetch_by(config: JwksConfig, scheme: str) -> Callable[[str], str]:
    if scheme != "https":
        return fetch_text
    tls = tls_options(config.options, config.setting)
    try:
        client_context(tls)  # what can't be used ends the start, not only each attempt to read
    except SettingError as error:
        raise SettingError(f"{config.setting}: {error}") from None
    return lambda url: fetch_text(url, tls)
