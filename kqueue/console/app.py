"""`create_app`: joins access, pages and files into one application."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from kqueue.base.errors import SettingError
from kqueue.console import pages
from kqueue.console.access import login
from kqueue.console.access.forms import FormGuard
from kqueue.console.access.headers import SecurityHeaders
from kqueue.console.access.hosts import AllowedHosts
from kqueue.console.access.sessions import SessionCookie, Sessions, SessionStore
from kqueue.console.connections import ConnectionPool
from kqueue.console.error_pages import ErrorPages, raise_again
from kqueue.console.history.broker_metrics import BrokerMetrics
from kqueue.console.history.sampler import Sampler
from kqueue.console.messages.value_view import ValueReader
from kqueue.console.navigation import served_navigation
from kqueue.console.options import ConsoleOptions
from kqueue.console.page import Console
from kqueue.console.reading_cache import ReadingCache
from kqueue.console.templating import Templates


def create_app(
    options: ConsoleOptions, pool: ConnectionPool | None = None, sampler: Sampler | None = None
) -> Starlette:
    """Return the application. Pages open no connection until they need one; the history does.

    Args:
        pool: of clients; None: a new one, which is closed with the application.
        sampler: of the history, which the application neither starts nor stops; None: as the
            options say, one that runs as long as the application.
    """
    pool = pool or ConnectionPool()
    own_sampler = _sampler(options) if sampler is None else None
    sessions = SessionStore(pool.forget)
    cookie = SessionCookie(options.port, options.uses_tls)
    routes = [*page_routes(), *login.ROUTES, Route("/favicon.ico", favicon), Mount("/static", _static())]
    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(SecurityHeaders, uses_tls=options.uses_tls),
            Middleware(AllowedHosts, names=host_names(options)),
            Middleware(
                Sessions, store=sessions, cookie=cookie, open_as=None if options.authenticates else options.client
            ),
            Middleware(ErrorPages),
            Middleware(FormGuard, allow_changes=options.allow_changes),
        ],
        exception_handlers={HTTPException: raise_again},
        lifespan=_lifespan(pool, own_sampler),
    )
    paths = frozenset(route.path for route in routes if isinstance(route, Route))
    app.state.console = Console(
        options,
        pool,
        sessions,
        cookie,
        Templates(),
        ReadingCache(),
        value_reader(options),
        served_navigation(paths),
        paths,
        sampler or own_sampler,
    )
    return app


def page_routes() -> list[BaseRoute]:
    """Return the routes of all modules of `pages`, by the names of the modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(pages.__path__))
    modules = (importlib.import_module(f"{pages.__name__}.{name}") for name in names)
    return [route for module in modules for route in getattr(module, "ROUTES", ())]


def value_reader(options: ConsoleOptions) -> ValueReader:
    """Return the reader of keys and values. Raises: KqueueError: a given schema is of no use."""
    if options.schemas is None:
        return ValueReader()
    from kqueue.console.messages.schema_values import SchemaValues  # needs the extra `schemas`

    return ValueReader(SchemaValues(options.schemas))


def host_names(options: ConsoleOptions) -> set[str]:
    """Return the names under which the console is served."""
    names = {"localhost", options.host, *options.allowed_hosts}
    return names if options.is_loopback else names | {socket.gethostname(), socket.getfqdn()}


def favicon(request: Request) -> Response:
    """Browsers ask for this path where a page names no icon."""
    return RedirectResponse("/static/icon.svg", 301)


class _CachedFiles(StaticFiles):
    """Files of the package, which browsers may keep for an hour."""

    def file_response(self, *arguments: object, **keywords: object) -> Response:
        response: Response = super().file_response(*arguments, **keywords)  # type: ignore[arg-type]
        response.headers["cache-control"] = "public, max-age=3600"
        return response


def _static() -> StaticFiles:
    return _CachedFiles(packages=[("kqueue.console", "static")])


def _sampler(options: ConsoleOptions) -> Sampler | None:
    """Return the sampler that the options ask for; None: none, or it could read nothing.

    Raises: SettingError: an address of metrics.
    """
    if options.history_interval_ms is None or options.lacks_credentials:
        return None
    try:
        metrics = [BrokerMetrics(url) for url in options.metrics]
    except ValueError as error:
        raise SettingError(f"--metrics: {error}") from None
    return Sampler(options.client, metrics=metrics, interval_ms=options.history_interval_ms)


def _lifespan(
    pool: ConnectionPool, sampler: Sampler | None
) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if sampler is not None:
            sampler.start()
        yield
        if sampler is not None:
            await run_in_threadpool(sampler.stop)
        pool.close()

    return lifespan
