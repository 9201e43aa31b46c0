"""Users with passwords for SCRAM: the list, a new password, and removal."""

from __future__ import annotations

import secrets

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.base.errors import KqueueError
from kqueue.client import Refusal, SaltedPassword
from kqueue.client.errors import ClientError
from kqueue.console.listing import listing
from kqueue.console.page import Page, form_error
from kqueue.console.problems import Problem
from kqueue.security.scram_credentials import ITERATIONS_MIN, SCRAM_MECHANISMS, salted_password
from kqueue.security.scram_validation import check_user_name

SALT_BYTES = 24
NAME_CHARACTERS_MAX, PASSWORD_CHARACTERS_MAX = 250, 1_000
BOTH = "both"
NAMES = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS.values()}


def users(request: Request) -> Response:
    """Show the users with their mechanisms."""
    return _page(Page(request))


def _page(page: Page, problem: Problem | None = None) -> Response:
    with page.client() as client:
        described = client.cluster.scram_users()
    rows = [
        (name, sorted((NAMES.get(number, f"mechanism {number}"), count) for number, count in credentials.items()))
        for name, credentials in sorted(described.items())
        if not isinstance(credentials, Refusal)
    ]
    return page.render(
        "users.html",
        title="Users",
        status=200 if problem is None else problem.status,
        listing=listing(rows, page.query, lambda row: row[0]),
        problem=problem,
        mechanisms=[(BOTH, "both"), *((name, name) for name in SCRAM_MECHANISMS)],
        values={"name": page.field("name"), "mechanism": page.field("mechanism")},
    )


def set_password(request: Request) -> Response:
    """Set a user's password. Brokers get and store salted hashes only."""
    page = Page(request)
    name = page.field("name", characters_max=NAME_CHARACTERS_MAX)
    chosen = page.field("mechanism")
    password = page.form.get("password")
    try:
        if chosen not in (BOTH, *SCRAM_MECHANISMS):
            raise ValueError(f"mechanism: expected one of {', '.join((BOTH, *SCRAM_MECHANISMS))}")
        if not isinstance(password, str) or not 0 < len(password) <= PASSWORD_CHARACTERS_MAX:
            raise ValueError(f"password: expected 1 to {PASSWORD_CHARACTERS_MAX:,} characters")
        _check_name(name)
        names = list(SCRAM_MECHANISMS) if chosen == BOTH else [chosen]
        with page.client() as client, page.change("set password", name, {"mechanisms": ", ".join(names)}):
            for mechanism in (SCRAM_MECHANISMS[each] for each in names):
                salt = secrets.token_bytes(SALT_BYTES)
                salted = salted_password(mechanism, password.encode(), salt, ITERATIONS_MIN)
                client.cluster.set_scram_password(
                    name, SaltedPassword(mechanism.number, ITERATIONS_MIN, salt, salted)
                )  # fmt: skip
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"User {name} has a new password.")
    return page.redirect("/users")


def remove(request: Request) -> Response:
    """Remove all passwords of a user. Connections that are authenticated already stay."""
    page = Page(request)
    name = page.field("name", characters_max=NAME_CHARACTERS_MAX)
    try:
        with page.client() as client, page.change("remove user", name):
            credentials = client.cluster.scram_users([name]).get(name, {})
            if isinstance(credentials, Refusal):
                raise ValueError(credentials.message or f"User {name!r} has no password.")
            for number in credentials:
                client.cluster.remove_scram_password(name, number)
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"Removed the passwords of user {name}.")
    return page.redirect("/users")


def _check_name(name: str) -> None:
    """Raises: ValueError: it can't be a user's name."""
    try:
        check_user_name(name)
    except ClientError:
        raise
    except KqueueError as error:
        raise ValueError(f"{error}.") from None


ROUTES = [
    Route("/users", users),
    Route("/users/set", set_password, methods=["POST"]),
    Route("/users/remove", remove, methods=["POST"]),
]
