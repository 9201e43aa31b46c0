"""Requests by HTTP and HTTPS, to identity providers for example: bounded in size and time."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from kqueue.base.clock import monotonic_s
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


class HttpAnswer(NamedTuple):
    """An answer as a whole. `content_type`: "" where it has none."""

    status: int
    content_type: str
    body: bytes


def read_url(request: Request, options: HttpOptions) -> bytes:
    """Return the body of the answer. Blocks; reads the files of `options.tls`.

    Raises: HTTPError: a status other than 2xx; it is open, and an OSError. OSError, ValueError.
        SettingError: a file of `options.tls` is of no use.
    """
    end_s = monotonic_s() + 2 * options.timeout_s
    with _no_http_errors(), _opener(options, end_s).open(request, timeout=options.timeout_s) as response:
        return read_bounded(response, options.bytes_max, end_s)


def exchange(request: Request, options: HttpOptions) -> HttpAnswer:
    """Return the answer, whatever its status. Blocks; reads the files of `options.tls`.

    Raises: OSError, ValueError, SettingError: as `read_url`.
    """
    end_s = monotonic_s() + 2 * options.timeout_s
    with _no_http_errors():
        try:
            response = _opener(options, end_s).open(request, timeout=options.timeout_s)
        except HTTPError as error:
            response = error
        with response:
            body = read_bounded(response, options.bytes_max, end_s)
        return HttpAnswer(response.status, response.headers.get("content-type", ""), body)


def _opener(options: HttpOptions, end_s: float) -> OpenerDirector:
    context = None if options.tls is None else client_context(options.tls)
    redirects: Any = _SameScheme() if options.follows else _NoRedirect()
    return build_opener(_UntilHttp(end_s), _UntilHttps(end_s, context), redirects)


@contextlib.contextmanager
def _no_http_errors() -> Iterator[None]:
    try:
        yield
    except HTTPException as error:
        raise OSError(f"the answer is no HTTP: {type(error).__name__}: {str(error)[:200]!r}") from None


def read_bounded(response: Any, bytes_max: int, end_s: float) -> bytes:
    """Return the whole body. Raises: ValueError: it is too long. OSError: or takes too long."""
    data = bytearray()
    while part := response.read1(CHUNK_BYTES):
        data += part
        if len(data) > bytes_max:
            raise ValueError(f"expected at most {bytes_max} bytes")
        if monotonic_s() > end_s:
            raise TimeoutError("the answer did not end in time")
    return bytes(data)


class _UntilReads(io.RawIOBase):
    """Reads of a socket until a time: the parts of an answer that urllib reads itself, its headers
    and sizes of chunks, may come byte by byte too.
    """

    def __init__(self, reads: Any, end_s: float) -> None:
        self._reads = reads
        self._end_s = end_s

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read once. Raises: TimeoutError."""
        if monotonic_s() > self._end_s:
            raise TimeoutError("the answer did not end in time")
        count: int | None = self._reads.readinto(buffer)
        return count

    def close(self) -> None:
        """Close the socket's file."""
        self._reads.close()
        super().close()


class _UntilResponse(HTTPResponse):
    def __init__(self, end_s: float, socket: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(socket, *arguments, **options)
        self.fp: Any = io.BufferedReader(_UntilReads(self.fp.detach(), end_s))


def _connection(kind: Any, end_s: float, host: str, **options: Any) -> Any:
    connection = kind(host, **options)
    connection.response_class = partial(_UntilResponse, end_s)
    return connection


class _UntilHttp(HTTPHandler):
    def __init__(self, end_s: float) -> None:
        super().__init__()
        self._end_s = end_s

    def http_open(self, req: Request) -> Any:
        return self.do_open(partial(_connection, HTTPConnection, self._end_s), req)


class _UntilHttps(HTTPSHandler):
    def __init__(self, end_s: float, context: Any) -> None:
        super().__init__(context=context)
        self._end_s = end_s
        self._given = context

    def https_open(self, req: Request) -> Any:
        connect: Any = partial(_connection, HTTPSConnection, self._end_s)
        return self.do_open(connect, req, context=self._given)


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
