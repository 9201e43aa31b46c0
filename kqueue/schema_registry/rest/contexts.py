"""`/contexts`: the contexts that there are; and the paths of the API below one of them."""

from __future__ import annotations

from urllib.parse import quote, unquote

from kqueue.schema_registry.rest.call import Call, Endpoint

_SUBJECT_IN_PATH = (("subjects",), ("compatibility", "subjects"), ("config",), ("mode",))
"""The segments after which a path names a subject."""


def list_contexts(call: Call) -> object:
    """Return the names of contexts."""
    return call.page(call.catalog.contexts())


def path_in_context(path: str, query: str) -> tuple[str, str]:
    """Return path and query without the segments `/contexts/{context}` at the beginning: subjects
    are named with that context instead. Other paths are returned as they are. All are encoded.
    """
    segments = path.split("/")
    if len(segments) < 4 or segments[1] != "contexts":
        return path, query
    context = unquote(segments[2]).strip(":")
    qualified = f":{context if context.startswith('.') else '.' + context}:"
    rest = segments[3:]
    for prefix in _SUBJECT_IN_PATH:
        if tuple(rest[: len(prefix)]) == prefix:
            place = len(prefix)
            if place < len(rest) or prefix in (("config",), ("mode",)):
                own = unquote(rest[place]) if place < len(rest) else ""
                rest[place:] = [quote(_in_context(own, qualified), safe=""), *rest[place + 1 :]]
                return "/" + "/".join(rest), query
            return "/" + "/".join(rest), _with_prefix(query, "subjectPrefix", qualified)
    if rest[0] == "schemas":
        return "/" + "/".join(rest), _with_prefix(query, "subjectPrefix" if len(rest) == 1 else "subject", qualified)
    return "/" + "/".join(rest), query


def _with_prefix(query: str, name: str, qualified: str) -> str:
    """Return a query whose value of a name is in the context."""
    parts = [part for part in query.split("&") if part]
    own = ""
    for part in parts:
        if part.partition("=")[0] == name:
            own = unquote(part.partition("=")[2].replace("+", " "))
    others = [part for part in parts if part.partition("=")[0] != name]
    return "&".join([*others, f"{name}={quote(_in_context(own, qualified), safe='')}"])


def _in_context(name: str, qualified: str) -> str:
    return name if name.startswith((":.", ":*:")) else qualified + name


ENDPOINTS = (Endpoint("GET", "/contexts", "the names of contexts", list_contexts, ("offset", "limit")),)
