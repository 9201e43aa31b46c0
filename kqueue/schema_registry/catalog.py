"""Questions about subjects, schemas, configs and modes. Nothing here changes anything."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from kqueue.schema_registry.configs import Config, effective_config
from kqueue.schema_registry.errors import (
    INVALID_VERSION,
    SCHEMA_ID_NOT_FOUND,
    SCHEMA_NOT_FOUND,
    SUBJECT_CONFIG_NOT_FOUND,
    SUBJECT_MODE_NOT_FOUND,
    SUBJECT_NOT_FOUND,
    VERSION_NOT_FOUND,
    RegistryError,
)
from kqueue.schema_registry.limits import VERSION_MAX
from kqueue.schema_registry.modes import effective_mode
from kqueue.schema_registry.replay import Replay
from kqueue.schema_registry.state.registry_state import RegistryState, Scope, scopes_of
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import ALL_CONTEXTS, DEFAULT_CONTEXT, SubjectName, parse_subject

LATEST = "latest"
GUID_CHARACTERS = 36


class Deleted(Enum):
    """Which versions a question is about."""

    EXCLUDED = "excluded"
    INCLUDED = "included"
    ONLY = "only"

    def covers(self, version: SchemaVersion) -> bool:
        """Whether a version is meant."""
        return self is Deleted.INCLUDED or version.is_deleted == (self is Deleted.ONLY)


class ContextSchemaId(NamedTuple):
    """The id of a schema in one context."""

    context: str
    id: int


class Defaults(NamedTuple):
    """What holds where nothing is set."""

    compatibility: str
    mode: str


class Catalog:
    """Answers questions from the state. Thread: any."""

    def __init__(self, replay: Replay, defaults: Defaults) -> None:
        self._replay = replay
        self._defaults = defaults

    # --- subjects

    def subjects(self, prefix: str = "", deleted: Deleted = Deleted.EXCLUDED) -> list[SubjectName]:
        """Return the subjects with such versions, sorted by context and name.

        Args:
            prefix: of names; "": all of all contexts. `:.context:` and `:*:` before it name one, or
                all contexts.
            deleted: ONLY: subjects without a version that is not deleted.
        """
        with self._replay.reading() as state:
            names = state.subjects(_prefix_filter(prefix))
            if deleted is Deleted.INCLUDED:
                return names
            is_only = deleted is Deleted.ONLY
            return [name for name in names if state.has_subject(name) != is_only]

    def versions(self, subject: SubjectName, deleted: Deleted = Deleted.EXCLUDED) -> list[SchemaVersion]:
        """Return the versions of a subject, oldest first. Raises: RegistryError: there is none."""
        with self._replay.reading() as state:
            versions = [one for one in state.versions(subject, is_deleted_included=True) if deleted.covers(one)]
        if not versions:
            raise RegistryError(SUBJECT_NOT_FOUND, subject=str(subject))
        return versions

    def version(self, subject: SubjectName, version: str, deleted: Deleted = Deleted.EXCLUDED) -> SchemaVersion:
        """Return a version. `version`: as `parse_version` takes it.

        Raises: RegistryError: there is no such subject or version; or it is no version.
        """
        number = parse_version(version)
        with self._replay.reading() as state:
            return find_version(state, subject, number, deleted)

    def all_versions(
        self, prefix: str = "", deleted: Deleted = Deleted.EXCLUDED, *, is_latest_only: bool = False
    ) -> Iterator[SchemaVersion]:
        """Yield the versions of all subjects of a prefix, in the order of `subjects`."""
        with self._replay.reading() as state:
            names = state.subjects(_prefix_filter(prefix))
        for name in names:
            with self._replay.reading() as state:
                versions = [one for one in state.versions(name, is_deleted_included=True) if deleted.covers(one)]
            yield from versions[-1:] if is_latest_only else versions

    def referrers(self, subject: SubjectName, version: str, deleted: Deleted = Deleted.EXCLUDED) -> list[SchemaVersion]:
        """Return the versions that refer to one, by id. Raises: as `version`."""
        found = self.version(subject, version, Deleted.INCLUDED if deleted is not Deleted.EXCLUDED else deleted)
        with self._replay.reading() as state:
            return sorted(state.references.referrers(subject, found.version), key=lambda one: one.id)

    def subject_of_alias(self, subject: SubjectName) -> SubjectName:
        """Return the subject that a name is an alias of; the name itself if it is none."""
        with self._replay.reading() as state:
            alias = (state.config(subject) or {}).get("alias")
        return parse_subject(alias, subject.context) if isinstance(alias, str) and alias else subject

    # --- schemas

    def schema(self, schema_id: int, subject: SubjectName | None = None) -> SchemaVersion:
        """Return a version with an id; soft-deleted ones have theirs too.

        Args: subject: in whose context the id is; without a context, one that has the id is found.
            A subject that lacks the id does not hide it. None: the default context.
        Raises: RegistryError.
        """
        with self._replay.reading() as state:
            version = state.schemas.any_version(_context_of_id(state, schema_id, subject), schema_id)
        if version is None:
            raise RegistryError(SCHEMA_ID_NOT_FOUND, id=schema_id)
        return version

    def schema_versions(
        self, schema_id: int, subject: SubjectName | None = None, deleted: Deleted = Deleted.INCLUDED
    ) -> list[SchemaVersion]:
        """Return the versions with an id, by subject and version. Arguments: as `schema`.

        Raises: RegistryError: there is none.
        """
        with self._replay.reading() as state:
            versions = state.schemas.versions(_context_of_id(state, schema_id, subject), schema_id)
        if not versions:
            raise RegistryError(SCHEMA_ID_NOT_FOUND, id=schema_id)
        return sorted(filter(deleted.covers, versions), key=lambda one: (one.subject, one.version))

    def max_id(self, subject: SubjectName | None = None) -> int:
        """Return the highest id that a context ever had; 0: none."""
        with self._replay.reading() as state:
            return state.schemas.max_id(DEFAULT_CONTEXT if subject is None else subject.context)

    def schema_of_guid(self, guid: str) -> list[SchemaVersion]:
        """Return the versions of a GUID, in all contexts. Raises: RegistryError: there is none."""
        md5 = _md5_of_guid(guid)
        with self._replay.reading() as state:
            versions = [
                version
                for context, schema_id in state.schemas.ids_of_md5(md5)
                for version in state.schemas.versions(context, schema_id)
                if version.md5 == md5
            ]
        if not versions:
            raise RegistryError(SCHEMA_NOT_FOUND)
        return versions

    def contexts(self) -> list[str]:
        """Return the names of all contexts, sorted."""
        with self._replay.reading() as state:
            return state.contexts()

    # --- configs and modes

    def config(self, scope: Scope, *, is_inherited: bool = False) -> Config:
        """Return the config of a scope. That of all always has a level.

        Args: is_inherited: take what is not set from the wider scopes.
        Raises: RegistryError: nothing is configured for the scope.
        """
        with self._replay.reading() as state:
            if scope is None or is_inherited:
                return config_in_force(state, scope, self._defaults)
            config = state.config(scope)
        if config is None:
            raise RegistryError(SUBJECT_CONFIG_NOT_FOUND, subject=str(scope))
        return effective_config([config])

    def mode(self, scope: Scope, *, is_inherited: bool = False) -> str:
        """Return the mode of a scope. Arguments and errors: as `config`."""
        with self._replay.reading() as state:
            if scope is None or is_inherited:
                return mode_in_force(state, scope, self._defaults)
            mode = state.mode(scope)
        if mode is None:
            raise RegistryError(SUBJECT_MODE_NOT_FOUND, subject=str(scope))
        return mode


def _md5_of_guid(guid: str) -> bytes:
    """Return the bytes of a GUID; of what is none, bytes that are no MD5."""
    try:
        return uuid.UUID(guid).bytes if len(guid) == GUID_CHARACTERS else b""
    except ValueError:
        return b""


def parse_version(text: str) -> int:
    """Return the number of a version; -1 for ``latest`` and ``-1``. Raises: RegistryError."""
    if text in (LATEST, "-1"):
        return -1
    if text.isascii() and text.isdecimal() and len(text) <= 10 and 1 <= int(text) <= VERSION_MAX:
        return int(text)
    raise RegistryError(INVALID_VERSION, version=text[:100])


def find_version(
    state: RegistryState, subject: SubjectName, number: int, deleted: Deleted = Deleted.EXCLUDED
) -> SchemaVersion:
    """Return a version. `number`: -1: the newest. Raises: RegistryError: there is none."""
    is_deleted_included = deleted is not Deleted.EXCLUDED
    latest = state.latest(subject, is_deleted_included=is_deleted_included)
    if latest is None:
        raise RegistryError(SUBJECT_NOT_FOUND, subject=str(subject))
    version = latest if number == -1 else state.version(subject, number)
    if version is None or not (is_deleted_included or not version.is_deleted):
        raise RegistryError(VERSION_NOT_FOUND, version=number)
    return version


def config_in_force(state: RegistryState, scope: Scope, defaults: Defaults) -> Config:
    """Return the config that holds for a scope; it has a level. Aliases are not inherited."""
    configs: Iterable[Config | None] = map(state.config, scopes_of(scope))
    config = effective_config([*configs, {"compatibilityLevel": defaults.compatibility}])
    own_alias = (state.config(scope) or {}).get("alias")
    return {name: part for name, part in config.items() if name != "alias" or part == own_alias}


def mode_in_force(state: RegistryState, scope: Scope, defaults: Defaults) -> str:
    """Return the mode that holds for a scope."""
    return effective_mode(map(state.mode, scopes_of(scope)), defaults.mode)


def _context_of_id(state: RegistryState, schema_id: int, subject: SubjectName | None) -> str:
    """Return the context in which to look for an id: that of the subject; if its name says none,
    the first in which the subject has the id.
    """
    if subject is None:
        return DEFAULT_CONTEXT
    if subject.context != DEFAULT_CONTEXT or subject.is_context:
        return subject.context
    has_id = (name for name in state.schemas.contexts() if state.schemas.has_subject(name, schema_id, subject.subject))
    if state.schemas.has_subject(DEFAULT_CONTEXT, schema_id, subject.subject):
        return DEFAULT_CONTEXT
    return min(has_id, default=DEFAULT_CONTEXT)


def _prefix_filter(prefix: str) -> Callable[[SubjectName], bool] | None:
    if not prefix:
        return None
    if prefix.startswith(f":{ALL_CONTEXTS}:"):
        anywhere = prefix[3:]
        return (lambda name: name.subject.startswith(anywhere)) if anywhere else None
    context, begin = parse_subject(prefix)
    return lambda name: name.context == context and name.subject.startswith(begin)
