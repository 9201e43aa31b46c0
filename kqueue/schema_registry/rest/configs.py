"""`/config`: compatibility levels, and what else is configured for subjects, contexts and all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kqueue.schema_registry.configs import COMPATIBILITY_LEVEL, parse_config_update
from kqueue.schema_registry.rest.call import Call, Endpoint
from kqueue.schema_registry.rest.contract import Operation


def get_config(call: Call) -> object:
    """Return a config."""
    return call.catalog.config(call.scope(Operation.DESCRIBE_CONFIGS), is_inherited=call.flag("defaultToGlobal"))


def put_config(call: Call) -> object:
    """Set members of a config; return what was set."""
    update = parse_config_update(call.members())
    call.registry.update_config(call.scope(Operation.ALTER_CONFIGS), update)
    return _as_requested(update)


def delete_config(call: Call) -> object:
    """Delete a config; return what it was."""
    return call.registry.delete_config(call.scope(Operation.ALTER_CONFIGS))


def _as_requested(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an update with the name that requests have for the level."""
    return {
        "compatibility" if name == COMPATIBILITY_LEVEL else name: part
        for name, part in update.items()
        if part is not None
    }


ENDPOINTS = (
    Endpoint("GET", "/config", "the config of all", get_config),
    Endpoint("PUT", "/config", "sets members of it", put_config, is_change=True),
    Endpoint("DELETE", "/config", "deletes it", delete_config, is_change=True),
    Endpoint("GET", "/config/{subject}", "the config of a subject or context", get_config, ("defaultToGlobal",)),
    Endpoint("PUT", "/config/{subject}", "sets members of it", put_config, is_change=True),
    Endpoint("DELETE", "/config/{subject}", "deletes it", delete_config, is_change=True),
)
