"""Modes of subjects, contexts and all: which changes are allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kqueue.schema_registry.errors import INVALID_MODE, RegistryError

READWRITE, IMPORT, READONLY_OVERRIDE = "READWRITE", "IMPORT", "READONLY_OVERRIDE"


class _Mode(NamedTuple):
    """`allows_changes`: of subjects and configs. `takes_ids`: whether clients give the ids."""

    allows_changes: bool
    takes_ids: bool = False


MODES: Mapping[str, _Mode] = {
    READWRITE: _Mode(allows_changes=True),
    "READONLY": _Mode(allows_changes=False),
    READONLY_OVERRIDE: _Mode(allows_changes=False),
    IMPORT: _Mode(allows_changes=True, takes_ids=True),
    # Its changes are made by the registry to which an exporter forwards them.
    "FORWARD": _Mode(allows_changes=False),
}
"""The modes, as requests and records name them."""


def parse_mode(given: object) -> str:
    """Return the name of a mode. Raises: RegistryError."""
    if not isinstance(given, str) or given.upper() not in MODES:
        raise RegistryError(INVALID_MODE, mode=str(given)[:100], modes=", ".join(MODES))
    return given.upper()


def effective_mode(modes: Iterable[str | None], default: str) -> str:
    """Return the mode that holds, of those from the nearest scope to the widest; None: not set.

    READONLY_OVERRIDE of any wider scope wins over what is nearer.
    """
    known = [mode for mode in modes if mode is not None and mode in MODES]
    if READONLY_OVERRIDE in known:
        return READONLY_OVERRIDE
    return known[0] if known else default
