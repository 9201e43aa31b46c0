"""What a browser sends: its size is bounded, and a change is accepted from the console's own pages
only.

Every POST passes here, so no page can forget a check. The form is ``request.state.form``.
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import FormData, Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kqueue.console.access.sessions import Session

BODY_BYTES_MAX = 2 * 1024 * 1024
FIELDS_MAX = 2_000
CSRF_FIELD = "csrf"
ACCESS_PATHS = ("/login", "/logout", "/theme")
"""Forms that change nothing in the cluster."""
READ_ONLY = "This console only shows. Start it with --allow-changes to allow changes."
FORGED = "The form is not from this session. Go back, load the page again, and repeat it."


class FormGuard:
    """Reads and checks the form of each POST.

    Args:
        allow_changes: whether forms other than those of `ACCESS_PATHS` are accepted.
    """

    def __init__(self, app: ASGIApp, *, allow_changes: bool) -> None:
        self._app = app
        self._allow_changes = allow_changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        request = Request(scope, _bounded(receive))
        if scope["method"] != "POST":
            raise HTTPException(405, "The console has pages (GET) and forms (POST) only.")
        if not is_same_origin(request.headers):
            raise HTTPException(403, FORGED)
        if scope["path"] not in ACCESS_PATHS and not self._allow_changes:
            raise HTTPException(403, READ_ONLY)
        try:
            form = await request.form(max_files=1, max_fields=FIELDS_MAX, max_part_size=BODY_BYTES_MAX)
        except MultiPartException as error:
            raise HTTPException(400, f"The form can't be read: {error.message}") from None
        try:
            if scope["path"] != "/login":  # has a token of its own, before there is a session
                check_token(form, request.state.session)
            request.state.form = form
            await self._app(scope, receive, send)
        finally:
            await form.close()


def check_token(form: FormData, session: Session | None) -> None:
    """Raises HTTPException: the form has not the token of the session."""
    given = form.get(CSRF_FIELD)
    if (
        session is None
        or not isinstance(given, str)
        or not hmac.compare_digest(given.encode(), session.csrf_token.encode())
    ):
        raise HTTPException(403, FORGED)


def is_same_origin(headers: Headers) -> bool:
    """Return whether a browser says that the request is of a page of this host, or says nothing.

    Programs and old browsers send neither header; the token decides about them.
    """
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None or site == "same-origin":
        return True
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _bounded(receive: Receive) -> Receive:
    """Return `receive` that ends a request whose body is too large, before it is all in memory."""
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > BODY_BYTES_MAX:
            raise HTTPException(413, f"The form is too large: the console takes up to {BODY_BYTES_MAX:,} bytes.")
        return message

    return receive_bounded
