"""Quotas: what users, client ids and addresses may use of each broker."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client.calls.quotas import QuotaAlteration
from kqueue.client.retry_policy import response_error
from kqueue.console.listing import listing
from kqueue.console.page import Page, form_error
from kqueue.console.problems import Problem
from kqueue.security.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)

QUOTAS = {
    PRODUCER_BYTE_RATE: "bytes per second of Produce requests",
    CONSUMER_BYTE_RATE: "bytes per second of records that are fetched",
    REQUEST_PERCENTAGE: "time of the broker's thread, in percent",
    CONTROLLER_MUTATION_RATE: "partitions per second that are created or deleted",
    CONNECTION_CREATION_RATE: "new connections per second from an address",
}
LABELS = {USER: "User", CLIENT_ID: "Client id", IP: "Address"}
NONE, DEFAULT, NAMED = "none", "default", "named"
KINDS = ((NONE, "–"), (NAMED, "of this name"), (DEFAULT, "all without a quota of their own"))
NAME_CHARACTERS_MAX, VALUE_CHARACTERS_MAX = 1_000, 30


def quotas(request: Request) -> Response:
    """Show the quotas."""
    return _page(Page(request))


def _page(page: Page, problem: Problem | None = None) -> Response:
    with page.client() as client:
        entries = client.cluster.describe_quotas()
    rows = sorted(
        ((entry.entity, name, value) for entry in entries for name, value in entry.quotas.items()),
        key=lambda row: (_described(row[0]), row[1]),
    )
    return page.render(
        "quotas.html",
        title="Quotas",
        status=200 if problem is None else problem.status,
        listing=listing(rows, page.query, lambda row: f"{_described(row[0])} {row[1]}"),
        problem=problem,
        types=[(kind, LABELS[kind]) for kind in ENTITY_TYPES],
        kinds=KINDS,
        quotas=[(name, f"{name}: {meaning}") for name, meaning in QUOTAS.items()],
        meanings=QUOTAS,
        values={
            name: page.field(name)
            for name in ("quota", "value", *ENTITY_TYPES, *(f"{kind}-kind" for kind in ENTITY_TYPES))
        },
    )


def _described(entity: Mapping[str, str | None]) -> str:
    """Return an entity in words: ``user ann, client-id app``."""
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in sorted(entity.items()))


def set_quota(request: Request) -> Response:
    """Set one quota."""
    page = Page(request)
    try:
        entity, quota = _entity(page), _quota(page)
        value = parse_value(page.field("value", characters_max=VALUE_CHARACTERS_MAX))
        with page.change("set quota", _described(entity), {quota: str(value)}):
            _alter(page, QuotaAlteration(entity, {quota: value}))
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"Set {quota} of {_described(entity)}.")
    return page.redirect("/quotas")


def remove(request: Request) -> Response:
    """Remove one quota."""
    page = Page(request)
    try:
        entity, quota = _entity(page), _quota(page)
        with page.change("remove quota", _described(entity), {"quota": quota}):
            _alter(page, QuotaAlteration(entity, {quota: None}))
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"Removed {quota} of {_described(entity)}.")
    return page.redirect("/quotas")


def _alter(page: Page, alteration: QuotaAlteration) -> None:
    with page.client() as client:
        [outcome] = client.cluster.alter_quotas([alteration])
    if outcome.code:
        raise response_error(outcome.code, "AlterClientQuotas", "", message=outcome.message)


def _entity(page: Page) -> dict[str, str | None]:
    """Return whose quota a form is about. Raises: ValueError: nobody's."""
    entity: dict[str, str | None] = {}
    for kind in ENTITY_TYPES:
        selected = page.field(f"{kind}-kind", NONE)
        name = page.form.get(kind, "")  # as it is: spaces are part of a name
        if selected == DEFAULT:
            entity[kind] = None
        elif selected == NAMED:
            if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
                raise ValueError(f"{LABELS[kind]}: give its name, of up to {NAME_CHARACTERS_MAX:,} characters")
            entity[kind] = name
    if not entity:
        raise ValueError("Say of whom: a user, a client id, both, or an address.")
    return entity


def _quota(page: Page) -> str:
    name = page.field("quota")
    if name not in QUOTAS:
        raise ValueError(f"quota: expected one of {', '.join(QUOTAS)}")
    return name


def parse_value(text: str) -> float:
    """Return the bound of a quota. Raises: ValueError: no number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise ValueError(f"value: expected a number above 0, found {text!r:.60}")
    return value


ROUTES = [
    Route("/quotas", quotas),
    Route("/quotas/set", set_quota, methods=["POST"]),
    Route("/quotas/remove", remove, methods=["POST"]),
]
