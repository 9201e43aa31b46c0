"""What goes along to the process of a job: the plugins that were added to this one for a while, and
which are preferred.

Installed ones it finds by itself; one that was named as `module:object` it imports; an object goes
pickled. One that can't come along does no harm unless the job needs it: then the job fails, with
its name and what to do.
"""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from typing import NamedTuple

from kqueue.base.registry import Registry, TemporaryEntry, import_object
from kqueue.config.plugins import CONTRACTS

REGISTRIES: dict[str, Registry[object]] = {row.group: row.registry for row in CONTRACTS if row.registry is not None}


class PluginRef(NamedTuple):
    """One plugin on its way; `path` or `pickled` is where to find it, or `trouble` says why it
    stays behind.
    """

    group: str
    name: str
    id: int | None
    origin: str
    path: str | None = None
    pickled: bytes = b""
    trouble: str = ""


class PluginManifest(NamedTuple):
    """`preferred`: group, name and id of each."""

    pieces: tuple[PluginRef, ...] = ()
    preferred: tuple[tuple[str, str, int | None], ...] = ()


def pack() -> bytes | None:
    """What another process needs, pickled; None: nothing. Any thread may call it."""
    pieces = tuple(
        _piece(group, guest) for group, registry in REGISTRIES.items() for guest in registry.temporary_entries()
    )
    preferred = tuple(
        (group, entry.name, entry.id) for group, registry in REGISTRIES.items() for entry in registry.preferences()
    )
    return pickle.dumps(PluginManifest(pieces, preferred)) if pieces or preferred else None


def unpack(packed: bytes, staying: ExitStack) -> None:
    """Add to the registries of this process what `packed` holds, for as long as `staying` is open."""
    luggage: PluginManifest = pickle.loads(packed)
    behind = {(piece.group, piece.name) for piece in luggage.pieces if not _arrived(piece, staying)}
    for group, name, id in luggage.preferred:
        if (group, name) in behind:
            continue
        try:
            staying.enter_context(REGISTRIES[group].preferred(name))
        except Exception as error:  # an installed one that does not load here, whatever the reason
            REGISTRIES[group].lost(name, id, str(error))


def _piece(group: str, guest: TemporaryEntry[object]) -> PluginRef:
    entry = guest.entry
    piece = PluginRef(group, entry.name, entry.id, entry.origin, guest.path)
    if guest.path is not None:
        return piece
    try:
        return piece._replace(pickled=pickle.dumps(entry.value))
    except Exception as error:  # pickle raises whatever the object does
        return piece._replace(trouble=f"{type(error).__name__}: {error}")


def _arrived(piece: PluginRef, staying: ExitStack) -> bool:
    registry, trouble = REGISTRIES[piece.group], piece.trouble
    if not trouble:
        try:
            value = import_object(piece.path, registry.noun) if piece.path is not None else pickle.loads(piece.pickled)
            staying.enter_context(registry.added(piece.name, value, piece.origin, path=piece.path))
        except Exception as error:  # whatever its module does when it is imported
            trouble = f"{type(error).__name__}: {error}"
    if trouble:
        registry.lost(
            piece.name,
            piece.id,
            f"{registry.noun} {piece.name!r} of {piece.origin} can't go along to the process of this job: {trouble}; make it an object "
            "of a class at the top of a module that can be imported (not of the script that is run), or name it as module:object in "
            "the settings",
        )
    return not trouble
