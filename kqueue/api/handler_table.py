"""The table of API handlers: which module serves an API key, and at which versions.

Every module of `kqueue.api.handlers` serves the API of its name (`wire.apis`), and the folder is
the list of served APIs. To add one, add its handler, its messages and its test. A handler holds:

        VERSIONS = (0, 4)   lowest and highest version served, both included
    def handle(request, context) -> response | DelayedOperation | None
    def error_response(request, version, error) -> response
                        only if the response has no `error_code` at its top
    def is_served(broker) -> bool
                        only if some brokers do not serve it
    ACCESS = (Rule(...), ...)
                        what a client must be allowed to do (`access`)
    ITEM_WEIGHT = 10    only if a list entry costs so many times a partition of a Fetch

`error_response` puts the code of `error` wherever the request asked for something. Handlers are
imported on first use. ApiVersions advertises only what a handler serves.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kqueue.api import handlers
from kqueue.api.access import Rule, guarded
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import UnsupportedVersion
from kqueue.base.sliced_task import SlicedWork
from kqueue.wire.apis import API_VERSIONS, BY_KEY, BY_MODULE, Api


def _always(broker: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ApiHandler:
    """One row of the table. `versions`: the advertised range."""

    api: Api
    versions: tuple[int, int]
    handle: Callable[[Any, Any], Any]
    error_response: Callable[[Any, int, BaseException], Any]
    """Called with the request, its version and the error; returns the response that reports it."""
    item_weight: int = 1
    is_served: Callable[[Any], bool] = _always
    """Called with the broker: whether it serves the API, and so advertises it."""
    access: tuple[Rule, ...] | None = None
    """The rights that a client needs. None: no client may use the API of a broker that has an
    authorizer.
    """


@cache
def handler_names() -> frozenset[str]:
    """Return the names of all handler modules, without importing any."""
    return frozenset(module.name for module in pkgutil.iter_modules(handlers.__path__))


def top_level_error(api: Api) -> Callable[[Any, int, BaseException], Any]:
    """Return the `error_response` of an API whose response has an `error_code` at its top."""

    def error_at_top(request: Any, version: int, error: BaseException) -> Any:
        return api.response_class(error_code=code_of(error))

    return error_at_top


@cache
def load(name: str) -> ApiHandler:
    """Return the row of one handler module, importing it on first use."""
    api, module = BY_MODULE[name], importlib.import_module(f"kqueue.api.handlers.{name}")

    return ApiHandler(
        api,
        module.VERSIONS,
        module.handle,
        getattr(module, "error_response", None) or top_level_error(api),
        getattr(module, "ITEM_WEIGHT", 1),
        getattr(module, "is_served", _always),
        getattr(module, "ACCESS", None),
    )


def lookup(api_key: int, api_version: int) -> ApiHandler:
    """Return the handler of an API key at a version.

    ApiVersions is returned for every version: its response tells the client which ones are served.

    Raises: UnsupportedVersion: no handler serves it; the connection must be closed, as by Kafka.
    """
    handler = _CACHE.get((api_key, api_version))
    if handler is None:
        handler = _look_up(api_key, api_version)
        if handler.versions[0] <= api_version <= handler.versions[1]:
            _CACHE[api_key, api_version] = handler
    return handler


def guarded_lookup(lookup: Callable[[int, int], ApiHandler]) -> Callable[[int, int], ApiHandler]:
    """Return `lookup` for a broker with an authorizer: each handler checks its rules first."""

    def look_up_guarded(api_key: int, api_version: int) -> ApiHandler:
        row = lookup(api_key, api_version)
        handle, name = guarded(row.handle, row.access), row.api.name

        def handle_named(request: Any, context: RequestContext) -> Any:
            context.api = name  # also of what the handler decides in slices: no other request begins meanwhile
            return handle(request, context)

        return replace(row, handle=handle_named)

    return look_up_guarded


def load_all() -> SlicedWork[None]:
    """Import all handlers, yielding after each one that was not imported yet."""
    for name in handler_names():
        if f"{handlers.__name__}.{name}" not in sys.modules:
            load(name)
            yield None


def all_handlers() -> list[ApiHandler]:
    """Return all rows, by API key; imports all handlers."""
    return sorted((load(name) for name in handler_names()), key=lambda row: row.api.key)


def unserved_keys(broker: Any) -> frozenset[int]:
    """Return the keys of APIs that have a handler but are not served by this broker."""
    return frozenset(row.api.key for row in all_handlers() if not row.is_served(broker))


def error_response(request: Any, version: int, error: BaseException) -> Any:
    """Return the response that reports an `error` which the handler of `request` did not catch."""
    name = type(request).__module__.rpartition(".")[2]  # messages and handler of an API share their module's name
    return load(name).error_response(request, version, error)


def _look_up(api_key: int, api_version: int) -> ApiHandler:
    api = BY_KEY.get(api_key)
    if api is None:
        raise UnsupportedVersion(f"no API with key {api_key} is served")
    handler = load(api.module_name)
    low, high = handler.versions
    if not low <= api_version <= high and api_key != API_VERSIONS:
        raise UnsupportedVersion(f"{api.name} is served from version {low} to {high}, the request has {api_version}")
    return handler


_CACHE: dict[tuple[int, int], ApiHandler] = {}
