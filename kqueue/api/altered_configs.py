"""Responses to requests that change settings: one result per resource, once all are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from kqueue.api.config_access import require_config_access
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation

WAIT_MS = 30_000
"""Time for the disk; the requests have no timeout of their own, clients wait 30 s by default."""
LATE = "the change was not stored in time; it may still be made"


class RequestedResource(Protocol):
    """A resource in a request."""

    resource_type: int
    resource_name: str


Q = TypeVar("Q", bound=RequestedResource)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Outcome = Promise[None] | KqueueError


class ResourceResult(Protocol[R_co]):
    """The class of the results of one API."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> R_co: ...


def alter_all(
    context: RequestContext,
    resources: Sequence[Q],
    alter: Callable[[ConfigResource, Q], Promise[None]],
    respond: Callable[[list[tuple[Q, BaseException | None]]], R],
) -> R | DelayedOperation[R]:
    """Start the change of each resource; return the response once all are in force.

    Args:
        alter: starts one change; raises KqueueError to refuse it.
        respond: builds the response from each resource and its error.
    """
    return in_slices(context, _alter_sliced(context, resources, alter, respond))


def resource_results(
    result: ResourceResult[R], outcomes: Iterable[tuple[RequestedResource, BaseException | None]]
) -> list[R]:
    """Return the result of each resource: its error, or None."""
    return [
        result(
            error_code=code_of(error),
            error_message=message_of(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, error in outcomes
    ]


def _alter_sliced(
    context: RequestContext,
    resources: Sequence[Q],
    alter: Callable[[ConfigResource, Q], Promise[None]],
    respond: Callable[[list[tuple[Q, BaseException | None]]], Any],
) -> SlicedWork[Any]:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    outcomes: list[tuple[Q, Outcome]] = []
    for resource in resources:
        outcomes.append((resource, _start(resource, counts, alter, context)))
        yield None
    promises = tuple(outcome for _, outcome in outcomes if isinstance(outcome, Promise))
    return wait_for_all(
        promises,
        lambda: respond([(resource, error_of(outcome, LATE)) for resource, outcome in outcomes]),
        context.deadline_ms(WAIT_MS),
    )


def _start(
    requested: Q,
    counts: Counter[tuple[int, str]],
    alter: Callable[[ConfigResource, Q], Promise[None]],
    context: RequestContext,
) -> Outcome:
    try:
        if counts[requested.resource_type, requested.resource_name] > 1:
            raise InvalidRequest(
                "Each resource must appear at most once.: the resource is twice in the request, expected each once"
            )
        require_config_access(context, AclOperation.ALTER_CONFIGS, requested.resource_type, requested.resource_name)
        return alter(ConfigResource(resource_type(requested.resource_type), requested.resource_name), requested)
    except KqueueError as error:
        return error


def resource_type(number: int) -> ResourceType:
    """Return the type of a resource in a request. Raises InvalidRequest: there is none."""
    try:
        return ResourceType(number)
    except ValueError:
        known = ", ".join(f"{type.value} ({type.name})" for type in ResourceType)
        raise InvalidRequest(f"Unknown resource type {number}: expected one of {known}") from None
