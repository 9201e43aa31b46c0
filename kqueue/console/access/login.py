"""The pages by which users get in and out, and choose a theme."""

from __future__ import annotations

import hmac
import secrets

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client import Client, ClientOptions
from kqueue.client.errors import NotAuthenticated
from kqueue.console.access.forms import CSRF_FIELD, FORGED
from kqueue.console.page import THEME_COOKIE, THEMES, Page, local_path
from kqueue.console.problems import Problem, problem_of, text_of
from kqueue.web.failure_limit import FailureLimit

LOGIN_COOKIE = "kqueue-login"
USER_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX = 250, 1_000
THEME_SECONDS = 365 * 24 * 3600


_failures = FailureLimit()


def login(request: Request) -> Response:
    """Show the form, or check what was sent and begin a session."""
    page = Page(request)
    if not page.console.options.authenticates:
        return page.redirect("/")
    if request.method == "GET":
        return _login_form(page)
    cookie = request.cookies.get(LOGIN_COOKIE, "")
    if not cookie or not hmac.compare_digest(cookie.encode(), page.field(CSRF_FIELD).encode()):
        raise HTTPException(403, FORGED)
    address = request.client.host if request.client else ""
    if _failures.is_reached(address):
        return _login_form(page, Problem(429, "Wait", "Too many logins failed. Try again in a minute."))
    user = page.field("user", characters_max=USER_CHARACTERS_MAX)
    credentials, problem = _credentials(page, user)
    if credentials is None or problem is not None:
        _failures.count(address)
        page.audit("log in", user, outcome=f"failed: {problem.sentence if problem else ''}")
        return _login_form(page, problem, user)
    if page.session is not None:
        page.console.sessions.end(page.session)
    page.session = page.console.sessions.begin(credentials, user)
    page.audit("log in", user)
    response = page.redirect(page.field("next") or "/")
    page.console.cookie.write(response, page.session.id)
    response.delete_cookie(LOGIN_COOKIE, path="/login")
    return response


def _credentials(page: Page, user: str) -> tuple[ClientOptions | None, Problem | None]:
    """Return the options of the user's clients, or why there are none."""
    options = page.console.options
    if options.token is not None:
        given = page.form.get("token")
        if isinstance(given, str) and hmac.compare_digest(given.strip().encode(), options.token.encode()):
            return options.client, None
        return None, Problem(403, "Not accepted", "That is not the console's token.")
    password = page.form.get("password")
    if not user or not isinstance(password, str) or not 0 < len(password) <= PASSWORD_CHARACTERS_MAX:
        return None, Problem(400, "Incomplete", "Give a user and a password.")
    credentials = options.client_of(user, password)
    try:
        with Client(credentials) as client:
            client.metadata([])
    except NotAuthenticated as error:
        return None, Problem(403, "Not accepted", f"The broker does not accept this login: {text_of(error)}")
    except Exception as error:
        return None, problem_of(error)
    return credentials, None


def _login_form(page: Page, problem: Problem | None = None, user: str = "") -> Response:
    token = secrets.token_urlsafe(32)
    wanted = page.query.get("next", "") or page.field("next")
    response = page.render(
        "login.html",
        title="Log in",
        status=problem.status if problem is not None else 200,
        problem=problem,
        user=user,
        by_token=page.console.options.token is not None,
        login_token=token,
        next=local_path(wanted) if wanted else "/",
    )
    response.set_cookie(
        LOGIN_COOKIE, token, path="/login", httponly=True, samesite="strict", secure=page.console.options.uses_tls
    )  # fmt: skip
    return response


def logout(request: Request) -> Response:
    """End the session, and its connections to the brokers."""
    page = Page(request)
    page.audit("log out")
    if page.session is not None:
        page.console.sessions.end(page.session)
    response = page.redirect("/login")
    page.console.cookie.delete(response)
    return response


def theme(request: Request) -> Response:
    """Keep the theme that was chosen, in a cookie."""
    page = Page(request)
    chosen = page.field("theme")
    response = page.redirect(page.field("next") or "/")
    if chosen in THEMES:
        response.set_cookie(
            THEME_COOKIE, chosen, max_age=THEME_SECONDS, path="/", httponly=True, samesite="lax",
            secure=page.console.options.uses_tls,
        )  # fmt: skip
    return response


ROUTES = [
    Route("/login", login, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/theme", theme, methods=["POST"]),
]
