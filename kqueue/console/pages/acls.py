"""ACLs: who may do what; the form for a new one, and removal."""

from __future__ import annotations

import enum
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.base.errors import InvalidRequest
from kqueue.client.retry_policy import response_error
from kqueue.console.listing import listing
from kqueue.console.page import Page, form_error
from kqueue.console.problems import Problem
from kqueue.security.acls import ANY_HOST, AclBinding, AclFilter, check_binding
from kqueue.security.operations import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType

E = TypeVar("E", bound=enum.IntEnum)
FIELDS = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")
TEXT_CHARACTERS_MAX = 250


def acls(request: Request) -> Response:
    """Show the ACLs."""
    return _page(Page(request))


def _page(page: Page, problem: Problem | None = None) -> Response:
    with page.client() as client:
        bindings = sorted(client.cluster.describe_acls(), key=_order)
    return page.render(
        "acls.html",
        title="ACLs",
        status=200 if problem is None else problem.status,
        listing=listing(bindings, page.query, str),
        problem=problem,
        values={name: page.field(name) for name in FIELDS},
        resource_types=_choices(ResourceType, ResourceType.TOPIC),
        pattern_types=_choices(PatternType, PatternType.LITERAL),
        operations=_choices(AclOperation, AclOperation.ALL),
        permissions=[("ALLOW", "allow"), ("DENY", "deny")],
        any_host=ANY_HOST,
    )


def _order(binding: AclBinding) -> tuple[object, ...]:
    return (binding.resource_type, binding.name, binding.pattern_type, binding.principal, binding.operation)


def _choices(kind: type[E], first: E) -> list[tuple[str, str]]:
    return [(one.name, _words(one)) for one in kind if one >= first]


def _words(one: enum.IntEnum) -> str:
    return one.name.lower().replace("_", " ")


def add(request: Request) -> Response:
    """Create an ACL."""
    page = Page(request)
    try:
        binding = _binding(page)
        check_binding(binding)
        with page.client() as client, page.change("create ACL", str(binding)):
            [outcome] = client.cluster.create_acls([binding])
            if outcome.code:
                raise response_error(outcome.code, "CreateAcls", "", message=outcome.message)
    except InvalidRequest as error:
        return _page(page, Problem(400, "Not valid", f"{error}."))
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"Created the ACL: {binding}.")
    return page.redirect("/acls")


def remove(request: Request) -> Response:
    """Delete one ACL."""
    page = Page(request)
    try:
        binding = _binding(page)
        with page.client() as client, page.change("delete ACL", str(binding)):
            deleted = client.cluster.delete_acls([AclFilter(*binding)])
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"Deleted the ACL: {binding}." if deleted else "That ACL did not exist any more.")
    return page.redirect("/acls")


def _binding(page: Page) -> AclBinding:
    """Return the ACL of a form. Raises: ValueError."""
    resource_type = _member(ResourceType, page, "resource_type")
    name = page.field("name", characters_max=TEXT_CHARACTERS_MAX)
    if resource_type is ResourceType.CLUSTER and not name:
        name = CLUSTER_NAME
    return AclBinding(
        resource_type,
        name,
        _member(PatternType, page, "pattern_type"),
        page.field("principal", characters_max=TEXT_CHARACTERS_MAX),
        page.field("host", characters_max=TEXT_CHARACTERS_MAX) or ANY_HOST,
        _member(AclOperation, page, "operation"),
        _member(AclPermission, page, "permission"),
    )


def _member(kind: type[E], page: Page, field: str) -> E:
    name = page.field(field, characters_max=TEXT_CHARACTERS_MAX)
    if name not in kind.__members__:
        raise ValueError(f"{field.replace('_', ' ')}: expected one of {', '.join(kind.__members__)}")
    return kind[name]


ROUTES = [
    Route("/acls", acls),
    Route("/acls/add", add, methods=["POST"]),
    Route("/acls/remove", remove, methods=["POST"]),
]
