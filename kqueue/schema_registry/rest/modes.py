"""`/mode`: which changes are allowed, of subjects, contexts and all."""

from __future__ import annotations

from kqueue.schema_registry.modes import parse_mode
from kqueue.schema_registry.rest.call import Call, Endpoint
from kqueue.schema_registry.rest.contract import Operation


def get_mode(call: Call) -> object:
    """Return a mode."""
    scope = call.scope(Operation.DESCRIBE_CONFIGS)
    return {"mode": call.catalog.mode(scope, is_inherited=call.flag("defaultToGlobal"))}


def put_mode(call: Call) -> object:
    """Set a mode; return it."""
    mode = parse_mode(call.members().get("mode"))
    call.registry.update_mode(call.scope(Operation.ALTER_CONFIGS), mode, is_forced=call.flag("force"))
    return {"mode": mode}


def delete_mode(call: Call) -> object:
    """Delete a mode; return what it was."""
    return {"mode": call.registry.delete_mode(call.scope(Operation.ALTER_CONFIGS))}


ENDPOINTS = (
    Endpoint("GET", "/mode", "the mode of all", get_mode),
    Endpoint("PUT", "/mode", "sets it", put_mode, ("force",), is_change=True),
    Endpoint("DELETE", "/mode", "deletes it", delete_mode, is_change=True),
    Endpoint("GET", "/mode/{subject}", "the mode of a subject or context", get_mode, ("defaultToGlobal",)),
    Endpoint("PUT", "/mode/{subject}", "sets it", put_mode, ("force",), is_change=True),
    Endpoint("DELETE", "/mode/{subject}", "deletes it", delete_mode, is_change=True),
)
