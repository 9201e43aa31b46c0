"""Requests to identity providers by HTTP and HTTPS: bounded in size and time."""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kqueue.config.tls_client import TlsClientSettings, client_context

CHUNK_BYTES = 64 * 1024


class HttpOptions(NamedTuple):
    """Bounds on one request.

    Attributes:
        timeout_s: of connecting, and between two parts of the answer; the whole answer may take
            twice as long.
        tls: whom to trust, and what to show; None: as the system does, which plain HTTP ignores.
        follows: redirects within the scheme; one that is not followed is an error.
    """

    bytes_max: int
    timeout_s: float
    tls: TlsClientSettings | None = None
    follows: bool = False


def read_url(request: Request, options: HttpOptions) -> bytes:
    """Return the body of the answer. Blocks; reads the files of `options.tls`.

    Raises: HTTPError: a status other than 2xx; it is open, and an OSError. OSError, ValueError.
        SettingError: a file of `options.tls` is of no use.
    """
    handlers: list[Any] = [_SameScheme() if options.follows else _NoRedirect()]
    if options.tls is not None:
        handlers.append(HTTPSHandler(context=client_context(options.tls)))
    end_s = time.monotonic() + 2 * options.timeout_s
    with build_opener(*handlers).open(request, timeout=options.timeout_s) as response:
        return read_bounded(response, options.bytes_max, end_s)


def read_bounded(response: Any, bytes_max: int, end_s: float) -> bytes:
    """Return the whole body. Raises: ValueError: it is too long. OSError: or takes too long."""
    data = bytearray()
    while part := response.read1(CHUNK_BYTES):
        data += part
        if len(data) > bytes_max:
            raise ValueError(f"expected at most {bytes_max} bytes")
        if time.monotonic() > end_s:
            raise TimeoutError("the answer did not end in time")
    return bytes(data)


class _SameScheme(HTTPRedirectHandler):
    """Follows no redirect to another scheme: from https to http, or to a file."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urlsplit(newurl).scheme != req.type:
            fp.close()
            raise ValueError(f"a redirect to {urlsplit(newurl).scheme} is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _NoRedirect(HTTPRedirectHandler):
    """Follows none: a secret that is sent with a request is for one place."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        raise HTTPError(req.full_url, code, "a redirect is not followed", headers, fp)
