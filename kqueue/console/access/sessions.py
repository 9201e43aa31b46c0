"""Sessions: which browser has logged in, as whom, with which CSRF token.

They are in memory: a console that starts again asks its users to log in again.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kqueue.base.clock import monotonic_s
from kqueue.client import ClientOptions

SESSIONS_MAX = 1_000
IDLE_S = 8 * 3600.0
LIFE_S = 24 * 3600.0
ID_BYTES = 32
FLASHES_MAX = 10
OPEN_PATHS = ("/login", "/static/", "/favicon.ico")
SHARED_LOGIN = "shared"
"""The login of all sessions that use the console's own credentials."""


@dataclass(slots=True)
class Session:
    """A browser that may see pages.

    `user`: as whom the broker knows it; "": by the console's own credentials. `login_id`: of its
    clients in the pool. `flashes`: messages for its next page, each with its kind.
    """

    id: str
    csrf_token: str
    user: str
    client: ClientOptions
    login_id: str
    created_s: float
    used_s: float
    flashes: list[tuple[str, str]] = field(default_factory=list)

    def flash(self, message: str, kind: str = "done") -> None:
        """Keep a message for the next page. `kind`: done, warning or error."""
        self.flashes = [*self.flashes[1 - FLASHES_MAX :], (kind, message)]

    def take_flashes(self) -> list[tuple[str, str]]:
        """Return the messages, and forget them."""
        taken, self.flashes = self.flashes, []
        return taken


class SessionStore:
    """All sessions, the one used longest ago first; beyond `sessions_max` it is ended.

    Args:
        on_end: called with the login of a session that has ended, unless it is shared.
    Thread: any.
    """

    def __init__(
        self,
        on_end: Callable[[str], object] = lambda login_id: None,
        *,
        sessions_max: int = SESSIONS_MAX,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._on_end = on_end
        self._sessions_max = sessions_max
        self._now_s = now_s
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def begin(self, client: ClientOptions, user: str = "") -> Session:
        """Return a new session. `client`: with the user's credentials; `user` "": the console's."""
        now_s = self._now_s()
        login_id = secrets.token_urlsafe(ID_BYTES) if user else SHARED_LOGIN
        session = Session(
            secrets.token_urlsafe(ID_BYTES), secrets.token_urlsafe(ID_BYTES), user, client, login_id, now_s, now_s
        )
        with self._lock:
            ended = self._take_out_old(now_s)
            while len(self._sessions) >= self._sessions_max:
                ended.append(self._sessions.popitem(last=False)[1])
            self._sessions[session.id] = session
        self._end_all(ended)
        return session

    def find(self, session_id: str | None) -> Session | None:
        """Return a session and note its use; None: there is none, or it has ended."""
        if not session_id:
            return None
        now_s = self._now_s()
        with self._lock:
            ended = self._take_out_old(now_s)
            session = self._sessions.get(session_id)
            if session is not None:
                session.used_s = now_s
                self._sessions.move_to_end(session_id)
        self._end_all(ended)
        return session

    def end(self, session: Session) -> None:
        """Forget a session."""
        with self._lock:
            removed = self._sessions.pop(session.id, None)
        if removed is not None:
            self._end_all([removed])

    def _take_out_old(self, now_s: float) -> list[Session]:
        """Sessions are in the order of their last use; few live longer than `LIFE_S`."""
        ended = []
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if now_s - oldest.used_s < IDLE_S and now_s - oldest.created_s < LIFE_S:
                break
            ended.append(self._sessions.popitem(last=False)[1])
        ended += [one for one in self._sessions.values() if now_s - one.created_s >= LIFE_S]
        for session in ended:
            self._sessions.pop(session.id, None)
        return ended

    def _end_all(self, sessions: list[Session]) -> None:
        for session in sessions:
            if session.login_id != SHARED_LOGIN:
                self._on_end(session.login_id)


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """The cookie of sessions. Over TLS only the console's own host can set it (``__Host-``).

    Without TLS its name has the port: browsers send cookies of one host to all its ports.
    """

    port: int
    uses_tls: bool

    @property
    def name(self) -> str:
        """Its name."""
        return "__Host-kqueue" if self.uses_tls else f"kqueue-{self.port}"

    def read(self, connection: HTTPConnection) -> str | None:
        """Return what a browser sent; None: nothing."""
        return connection.cookies.get(self.name)

    def write(self, response: Response, session_id: str) -> None:
        """Give a browser its session, until it is closed."""
        response.set_cookie(
            self.name, session_id, path="/", httponly=True, samesite="lax", secure=self.uses_tls
        )  # fmt: skip

    def delete(self, response: Response) -> None:
        """Have a browser forget its session."""
        response.delete_cookie(self.name, path="/", httponly=True, samesite="lax", secure=self.uses_tls)


class Sessions:
    """Finds the session of each request, as ``request.state.session``.

    Args:
        open_as: the credentials of browsers without a session; None: they have to log in first.
    """

    def __init__(
        self, app: ASGIApp, *, store: SessionStore, cookie: SessionCookie, open_as: ClientOptions | None
    ) -> None:
        self._app = app
        self._store = store
        self._cookie = cookie
        self._open_as = open_as

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        session = self._store.find(self._cookie.read(connection))
        path = scope["path"]
        is_open = path.startswith(OPEN_PATHS)
        if session is None and self._open_as is None and not is_open:
            await _to_login(path if scope["method"] in ("GET", "HEAD") else "/", scope["query_string"])(
                scope, receive, send
            )
            return
        is_new = session is None and self._open_as is not None and not is_open
        if is_new:
            assert self._open_as is not None
            session = self._store.begin(self._open_as)
        connection.state.session = session

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert session is not None
                response = Response()
                self._cookie.write(response, session.id)
                MutableHeaders(scope=message).append("set-cookie", response.headers["set-cookie"])
            await send(message)

        await self._app(scope, receive, send_with_cookie if is_new else send)


def _to_login(path: str, query: bytes) -> RedirectResponse:
    wanted = path + (f"?{query.decode('ascii', 'replace')}" if query else "")
    return RedirectResponse("/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}", 303)
