"""`Page`: what a page needs of the console, for one request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from starlette.background import BackgroundTasks
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from kqueue.base.version import __version__
from kqueue.client import Client, ClusterMetadata
from kqueue.client.errors import ClientError
from kqueue.console.access.audit import audit
from kqueue.console.access.forms import READ_ONLY
from kqueue.console.access.sessions import Session, SessionCookie, SessionStore
from kqueue.console.connections import ConnectionPool
from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.console.history.sampler import Sampler
from kqueue.console.messages.value_view import ValueReader
from kqueue.console.navigation import SectionGroup
from kqueue.console.options import ConsoleOptions
from kqueue.console.problems import Problem, TooBusy, UnknownResource, problem_of, text_of
from kqueue.console.reading_cache import ReadingCache, ReadingKey
from kqueue.console.templating import Templates

T = TypeVar("T")
THEME_COOKIE = "kqueue-theme"
REFRESH_HEADER = "x-kqueue-refresh"
THEMES = ("auto", "light", "dark")
FIELD_CHARACTERS_MAX = 10_000


@dataclass(slots=True)
class Console:
    """What all requests share: ``app.state.console``.

    `reader`: shows keys and values of messages.
    `navigation`: the sections of which there is a page. `served`: the paths of all routes.
    `sampler`: of the history; None: the console keeps none.
    """

    options: ConsoleOptions
    pool: ConnectionPool
    sessions: SessionStore
    cookie: SessionCookie
    templates: Templates
    readings: ReadingCache
    reader: ValueReader
    navigation: tuple[SectionGroup, ...] = ()
    served: frozenset[str] = frozenset()
    sampler: Sampler | None = None


class Crumb(NamedTuple):
    """A page above the current one, for the line that leads back to it."""

    title: str
    path: str


class Page:
    """One request, with the session's clients, templates, form and audit.

    Attributes:
        request: Starlette's.
        console: what all requests share.
        session: the browser's; None: only for the pages by which users get in, and their errors.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.console: Console = request.app.state.console
        self.session: Session | None = getattr(request.state, "session", None)
        self._after = BackgroundTasks()

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Lend a client with the session's credentials to a ``with`` block.

        Errors of the client may leave the block: they become a page with a sentence.
        """
        session = self._session()
        with self.console.pool.client(session.login_id, session.client) as client:
            yield client

    def cluster(self) -> ClusterMetadata:
        """Return the brokers and all topics. Of a large cluster it may be some seconds old; after a
        change through the console it never is.
        """
        return self.reading("metadata", Client.metadata)

    def reading(self, subject: str, read: Callable[[Client], T]) -> T:
        """Return what a function reads of the cluster, as `cluster` does for the metadata.

        Args:
            subject: names it, the same for all pages that read it so.
            read: returns no None.
        """
        key = ReadingKey(self._session().login_id, subject)

        def read_now() -> T:
            with self.client() as client:
                return read(client)

        def renew() -> None:
            with contextlib.suppress(ClientError, TooBusy):  # the next page reports it
                self.console.readings.renew(key, read_now)

        value, is_stale = self.console.readings.get(key, read_now)
        if is_stale:
            self._after.add_task(renew)
        return value

    @property
    def history(self) -> ClusterHistory | None:
        """What the cluster did of late, as the console's own credentials see it; None: not kept.

        A page shows of it only what the session's client lists: brokers decide what a user sees.
        """
        return self.console.sampler.history if self.console.sampler is not None else None

    @property
    def may_change(self) -> bool:
        """Whether the console accepts changes; the broker may still refuse one."""
        return self.console.options.allow_changes

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address."""
        return self.request.query_params

    @property
    def form(self) -> FormData:
        """The form that was sent, whose token has been checked; empty for a GET."""
        form: FormData = getattr(self.request.state, "form", FormData())
        return form

    def field(self, name: str, default: str = "", *, characters_max: int = FIELD_CHARACTERS_MAX) -> str:
        """Return a text field of the form without spaces around it.

        Raises: HTTPException: it is longer than `characters_max`.
        """
        value = self.form.get(name, default)
        if not isinstance(value, str):
            raise HTTPException(400, f"The field {name!r} takes text.")
        if len(value) > characters_max:
            raise HTTPException(400, f"The field {name!r} takes up to {characters_max:,} characters.")
        return value.strip()

    def render(
        self,
        template: str,
        *,
        title: str,
        crumbs: tuple[Crumb, ...] = (),
        status: int = 200,
        **data: Any,
    ) -> Response:
        """Return a page.

        Args:
            template: a file's name in `templates/`, which extends ``base.html``.
            title: what the page shows; its heading and the browser's title.
            crumbs: the pages above it.
            data: the names that the template uses.
        """
        session = self.session
        theme = self.request.cookies.get(THEME_COOKIE, "")
        shared = {
            "title": title,
            "crumbs": crumbs,
            "navigation": self.console.navigation if session is not None else (),
            "path": self.request.url.path,
            "address": self.address,
            "session": session,
            "flashes": self._flashes(),
            "csrf": session.csrf_token if session is not None else "",
            "may_change": self.may_change,
            "served": self.console.served,
            "may_log_out": self.console.options.authenticates,
            "theme": theme if theme in THEMES else "auto",
            "themes": THEMES,
            "bootstrap": self.console.options.client.bootstrap,
            "version": __version__,
        }
        return HTMLResponse(self.console.templates.render(template, shared | data), status, background=self._after)

    def problem(self, problem: Problem) -> Response:
        """Return the page of a failure."""
        return self.render("problem.html", title=problem.title, status=problem.status, problem=problem)

    def redirect(self, path: str) -> Response:
        """Send the browser to another page of the console, after a form."""
        return RedirectResponse(local_path(path), 303)

    def flash(self, message: str, kind: str = "done") -> None:
        """Show a message on the session's next page. `kind`: done, warning or error."""
        self._session().flash(message, kind)

    def audit(
        self, action: str, resource: str = "", *, outcome: str = "done", details: Mapping[str, str] | None = None
    ) -> None:
        """Log one line of who did what. `details`: never a secret."""
        user = self.session.user if self.session is not None else ""
        audit(
            action,
            user=user or "(console)",
            address=self.request.client.host if self.request.client else "",
            resource=resource,
            outcome=outcome,
            details=details or {},
        )

    @contextlib.contextmanager
    def change(self, action: str, resource: str = "", details: Mapping[str, str] | None = None) -> Iterator[None]:
        """Audit the outcome of a change that the ``with`` block makes.

        Args:
            action: as in ``create topic``. resource: its name. details: never a secret.
        Raises: HTTPException: the console only shows.
        """
        if not self.may_change:
            self.audit(action, resource, outcome="refused: read-only", details=details)
            raise HTTPException(403, READ_ONLY)
        try:
            yield
        except Exception as error:
            self.audit(action, resource, outcome=f"failed: {text_of(error)}", details=details)
            raise
        finally:
            self.console.readings.invalidate()
        self.audit(action, resource, details=details)

    @property
    def address(self) -> str:
        """The address of this page, with its parameters, for links and forms back to it."""
        url = self.request.url
        return f"{url.path}?{url.query}" if url.query else url.path

    def _flashes(self) -> list[tuple[str, str]]:
        """The refresh of regions shows no messages, so it leaves them to the next page."""
        if self.session is None or REFRESH_HEADER in self.request.headers:
            return []
        return self.session.take_flashes()

    def _session(self) -> Session:
        if self.session is None:
            raise HTTPException(403, "Log in first.")
        return self.session


def local_path(path: str) -> str:
    """Return a path of this console; another address, which could be another site's: ``/``."""
    is_local = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if is_local and path.isprintable() else "/"


def form_error(error: Exception) -> Problem:
    """Return what a form says of an error that its user can mend. Raises: the error, if not."""
    if isinstance(error, ClientError | UnknownResource | ValueError):
        problem = problem_of(error)
        if problem.status < 500:
            return problem
    raise error
