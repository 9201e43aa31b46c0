"""The plugins that a worker process needs: those that were added to this process temporarily, and
which ones are preferred.

The worker finds installed plugins by itself, imports those named as `module:object`, and gets
objects pickled. A plugin that can't be sent is reported only if the job needs it: the job fails
with its name and what to do.
"""

from __future__ import annotations

import pickle
from contextlib import ExitStack
from typing import NamedTuple

from kqueue.base.registry import Registry, TemporaryEntry, import_object
from kqueue.config.plugins import CONTRACTS

REGISTRIES: dict[str, Registry[object]] = {row.group: row.registry for row in CONTRACTS if row.registry is not None}


class PluginRef(NamedTuple):
    """One plugin: how to load it (`path` or `pickled`), or why it can't be sent (`failure`)."""

    group: str
    name: str
    id: int | None
    origin: str
    path: str | None = None
    pickled: bytes = b""
    failure: str = ""


class PluginManifest(NamedTuple):
    """All plugins for a worker. `preferred`: group, name and id of each preferred one."""

    plugins: tuple[PluginRef, ...] = ()
    preferred: tuple[tuple[str, str, int | None], ...] = ()


def dump_manifest() -> bytes | None:
    """Return the pickled manifest for a worker process; None: it is empty. Thread: any."""
    plugins = tuple(
        _plugin(group, guest) for group, registry in REGISTRIES.items() for guest in registry.temporary_entries()
    )
    preferred = tuple(
        (group, entry.name, entry.id) for group, registry in REGISTRIES.items() for entry in registry.preferences()
    )
    return pickle.dumps(PluginManifest(plugins, preferred)) if plugins or preferred else None


def load_manifest(packed: bytes, lifetime: ExitStack) -> None:
    """Register the plugins of a manifest in this process, for as long as `lifetime` is open."""
    manifest: PluginManifest = pickle.loads(packed)
    missing = {(plugin.group, plugin.name) for plugin in manifest.plugins if not _register(plugin, lifetime)}
    for group, name, id in manifest.preferred:
        if (group, name) in missing:
            continue
        try:
            lifetime.enter_context(REGISTRIES[group].preferred(name))
        except Exception as error:  # an installed plugin that does not load here
            REGISTRIES[group].lost(name, id, str(error))


def _plugin(group: str, guest: TemporaryEntry[object]) -> PluginRef:
    entry = guest.entry
    plugin = PluginRef(group, entry.name, entry.id, entry.origin, guest.path)
    if guest.path is not None:
        return plugin
    try:
        return plugin._replace(pickled=pickle.dumps(entry.value))
    except Exception as error:  # pickle raises what the object raises
        return plugin._replace(failure=f"{type(error).__name__}: {error}")


def _register(plugin: PluginRef, lifetime: ExitStack) -> bool:
    registry, failure = REGISTRIES[plugin.group], plugin.failure
    if not failure:
        try:
            value = (
                import_object(plugin.path, registry.noun) if plugin.path is not None else pickle.loads(plugin.pickled)
            )
            lifetime.enter_context(registry.added(plugin.name, value, plugin.origin, path=plugin.path))
        except Exception as error:  # importing runs its module
            failure = f"{type(error).__name__}: {error}"
    if failure:
        registry.lost(
            plugin.name,
            plugin.id,
            f"{registry.noun} {plugin.name!r} of {plugin.origin} can't be sent to the process of this "
            f"job: {failure}; make it an object "
            "of a class at the top of a module that can be imported (not of the script that is run), "
            "or name it as module:object in "
            "the settings",
        )
    return not failure
