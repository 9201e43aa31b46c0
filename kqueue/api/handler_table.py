"""The table of APIs: which module serves which key, and at which versions.

A module of this package that is named like an API of the protocol serves it. It holds

    VERSIONS = (0, 4)                                   lowest and highest version that it serves, all between included
    def handle(request, call) -> response | DelayedOperation | None
    def refuse(request, version, error) -> response     only where the response has no `error_code` of its own at the top
    ITEM_WEIGHT = 10                                    only where a list entry costs so many times more than a partition of a fetch

`refuse` builds the response that tells of `error` at every place where the request asked for
something. Modules are imported on first use. Nothing is advertised that no module serves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from kqueue.api.errors import code_of
from kqueue.base.errors import UnsupportedVersion
from kqueue.wire.apis import API_VERSIONS, BY_KEY, BY_MODULE, Api

MODULES: tuple[str, ...] = (
    "api_versions",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_groups",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "sync_group",
)
"""Every module here that serves an API; a test holds it against the folder."""


@dataclass(frozen=True, slots=True)
class ApiHandler:
    """One row of the table. `handle`, `refuse` and `item_weight` are the module's; `versions` is
    what is advertised.
    """

    api: Api
    versions: tuple[int, int]
    handle: Callable[[Any, Any], Any]
    refuse: Callable[[Any, int, BaseException], Any] | None
    item_weight: int = 1

    def error_response(self, request: Any, version: int, error: BaseException) -> Any:
        """The response that tells of `error` wherever `request` asked for something."""
        if self.refuse is not None:
            return self.refuse(request, version, error)
        return self.api.response_class(error_code=code_of(error))


@cache
def load(name: str) -> ApiHandler:
    """The row of one module, imported now if it was not."""
    module = importlib.import_module(f"kqueue.api.handlers.{name}")
    return ApiHandler(
        BY_MODULE[name],
        module.VERSIONS,
        module.handle,
        getattr(module, "refuse", None),
        getattr(module, "ITEM_WEIGHT", 1),
    )


def lookup(api_key: int, api_version: int) -> ApiHandler:
    """Who serves this key at this version. Raises UnsupportedVersion: nobody does, and the
    connection is to be closed.

    ApiVersions is found at any version, because its own answer tells what is served.
    """
    found = _FOUND.get((api_key, api_version))
    if found is None:
        found = _look_up(api_key, api_version)
        if found.versions[0] <= api_version <= found.versions[1]:
            _FOUND[api_key, api_version] = found
    return found


def all_handlers() -> list[ApiHandler]:
    """All rows, by key: what ApiVersions tells."""
    return sorted((load(name) for name in MODULES), key=lambda row: row.api.key)


def error_response(request: Any, version: int, error: BaseException) -> Any:
    """The response to `request` that tells of `error` wherever it asked for something; for what its
    handler did not catch.
    """
    name = type(request).__module__.rpartition(".")[2]  # the messages of an API lie in a module of its name
    return load(name).error_response(request, version, error)


def _look_up(api_key: int, api_version: int) -> ApiHandler:
    api = BY_KEY.get(api_key)
    if api is None or api.module_name not in MODULES:
        raise UnsupportedVersion(f"no API with key {api_key} is served")
    row = load(api.module_name)
    low, high = row.versions
    if not low <= api_version <= high and api_key != API_VERSIONS:
        raise UnsupportedVersion(f"{api.name} is served from version {low} to {high}, the request has {api_version}")
    return row


_FOUND: dict[tuple[int, int], ApiHandler] = {}
