"""`Registry`: every operation of the REST API, over a log of records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kqueue.schema_registry import data_contract
from kqueue.schema_registry.catalog import (
    Catalog,
    Defaults,
    Deleted,
    config_in_force,
    find_version,
    mode_in_force,
    parse_version,
)
from kqueue.schema_registry.configs import COMPATIBILITY_LEVEL, Config, effective_config, updated_config
from kqueue.schema_registry.errors import (
    ID_DOES_NOT_MATCH,
    INCOMPATIBLE_SCHEMA,
    INVALID_SCHEMA,
    OPERATION_NOT_PERMITTED,
    OPERATION_TIMED_OUT,
    REFERENCE_EXISTS,
    SCHEMA_NOT_FOUND,
    SCHEMA_TOO_LARGE,
    STORE_FAILED,
    SUBJECT_NOT_FOUND,
    SUBJECT_NOT_SOFT_DELETED,
    SUBJECT_SOFT_DELETED,
    UNKNOWN_LEADER,
    VERSION_NOT_SOFT_DELETED,
    VERSION_SOFT_DELETED,
    RegistryError,
)
from kqueue.schema_registry.limits import DEFAULT_LIMITS, ID_MAX, VERSION_MAX, Limits
from kqueue.schema_registry.modes import IMPORT, MODES, READWRITE
from kqueue.schema_registry.parsed_schemas import ParsedSchemas
from kqueue.schema_registry.records import (
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    ModeKey,
    RecordKey,
    RecordValue,
    SchemaKey,
    encode_key,
    encode_value,
)
from kqueue.schema_registry.replay import Replay
from kqueue.schema_registry.schema_content import SchemaContent
from kqueue.schema_registry.schema_log import NotTheWriter, SchemaLog, StoredRecordTooLarge, StoreUnavailable
from kqueue.schema_registry.schemas import LEVELS, check_compatibility, schema_type
from kqueue.schema_registry.schemas.contract import ParsedSchema, SchemaType
from kqueue.schema_registry.state.registry_state import RegistryState, Scope
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import SubjectName

APPLY_TIMEOUT_S = 30.0
"""How long a change waits for its record to come back from the log."""


class SchemaRequest(NamedTuple):
    """A schema that a client sends.

    Attributes: id, version: the ones that it shall have; None: the next ones.
    """

    content: SchemaContent
    id: int | None = None
    version: int | None = None


class _Prepared(NamedTuple):
    """A schema of a request.

    Attributes:
        content: with the text that would be stored.
        stored: with what the config and the last version add: as it would be stored. An import
            is stored as it is.
        is_normalized: whether the text is in normal form.
    """

    content: SchemaContent
    stored: SchemaContent
    is_normalized: bool
    parsed: ParsedSchema


class Registry:
    """The schema registry of one log.

    Changes are made one after the other: each reads the state, checks, appends a record, and waits
    until the record is applied. Only the registry that leads calls them; any may ask `catalog`.
    Thread: any. Each method raises RegistryError.

    Args:
        compatibility, mode: what holds where nothing is set.
        type_of: returns the schema type of a name.
    Attributes: catalog: answers questions.
    """

    def __init__(
        self,
        log: SchemaLog,
        *,
        compatibility: str = "BACKWARD",
        mode: str = READWRITE,
        limits: Limits = DEFAULT_LIMITS,
        type_of: Callable[[str], SchemaType] = schema_type,
        apply_timeout_s: float = APPLY_TIMEOUT_S,
    ) -> None:
        self.limits = limits
        self._log = log
        self._defaults = Defaults(compatibility, mode)
        self._replay = Replay()
        self._schemas = ParsedSchemas(type_of, limits)
        self._apply_timeout_s = apply_timeout_s
        self._changing = threading.Lock()
        self._appended = -1  # the offset of the last record that was written here
        self.catalog = Catalog(self._replay, self._defaults)

    # --- the log

    def apply(self, offset: int, key: bytes | None, value: bytes | None, timestamp_ms: int = -1) -> None:
        """Take in the next record of the log, of any writer. Called by one reader; never raises.

        Args: timestamp_ms: of the record, since 1970 UTC; -1: not known.
        """
        self._replay.apply(offset, key, value, timestamp_ms)

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Wait until the record of an offset is applied; return whether it is."""
        return self._replay.wait_for(offset, timeout_s)

    @property
    def applied_offset(self) -> int:
        """The offset of the last record that was applied; -1: none."""
        return self._replay.offset

    @contextmanager
    def between_changes(self) -> Iterator[None]:
        """Exclude changes: none that has read the state waits to be appended in this block."""
        with self._changing:
            yield

    # --- schemas

    def find_registered(
        self, subject: SubjectName, request: SchemaRequest, *, is_normalized: bool = False
    ) -> SchemaVersion | None:
        """Return the version that registering this schema would return without a change; None: it
        would change something. A registry that does not lead may ask too.
        """
        return self._registered(subject, request, self._prepare(subject, request.content, is_normalized))

    def register(self, subject: SubjectName, request: SchemaRequest, *, is_normalized: bool = False) -> SchemaVersion:
        """Return the version of a subject that has this schema; add it if there is none.

        Args: subject: checked by `checked_subject`. is_normalized: register the normalized text.
        """
        with self._change():
            prepared = self._prepare(subject, request.content, is_normalized)
            existing = self._registered(subject, request, prepared)
            if existing is not None:
                return existing
            with self._replay.reading() as state:
                mode = self._check_changes_allowed(state, subject)
                if MODES[mode].takes_ids:
                    version = _imported(state, subject, request, prepared.stored, mode)
                else:
                    version = _next(state, subject, request, prepared.stored)
                has_context = state.has_context(subject.context)
            if not MODES[mode].takes_ids:
                self._check_is_compatible(subject, prepared)
            records: list[tuple[RecordKey, RecordValue]] = [] if has_context else [(ContextKey(subject.context), True)]
            self._append(*records, (SchemaKey(str(subject), version.version), version.value()))
            with self._replay.reading() as state:
                return state.version(subject, version.version) or version

    def look_up(
        self,
        subject: SubjectName,
        content: SchemaContent,
        *,
        is_normalized: bool = False,
        deleted: Deleted = Deleted.EXCLUDED,
    ) -> SchemaVersion:
        """Return the version of a subject that has this schema; of several the newest.

        Metadata and rules that are not given do not count, unless a version has none either.
        """
        with self._replay.reading() as state:
            if not state.has_subject(subject, is_deleted_included=deleted is not Deleted.EXCLUDED):
                raise RegistryError(SUBJECT_NOT_FOUND, subject=str(subject))
        prepared = self._prepare(subject, content, is_normalized)
        version = self._find(subject, prepared, deleted.covers)
        if version is not None:
            return version
        raise RegistryError(SCHEMA_NOT_FOUND)

    def check_compatibility(
        self, subject: SubjectName, content: SchemaContent, version: str | None = None, *, is_normalized: bool = False
    ) -> list[str]:
        """Return why a schema could not be registered next; empty: it could be.

        Args: version: the one to compare with; None: those that the level says. Anything is
            compatible with the latest version of a subject that has none.
        """
        against = None
        if version is not None:
            with self._replay.reading() as state:
                against = _compared_with(state, subject, parse_version(version))
        prepared = self._prepare(subject, content, is_normalized)
        return self._incompatibilities(subject, prepared, against)[1]

    def text_of(self, version: SchemaVersion, format: str) -> str:
        """Return the text of a version in a format; "": as it is stored."""
        if not format:
            return version.content.text
        return self._parse_stored(version).formatted(format)

    # --- deletions

    def delete_version(self, subject: SubjectName, version: str, *, is_permanent: bool = False) -> int:
        """Delete a version, softly or what is soft-deleted permanently; return its number."""
        number = parse_version(version)
        with self._change():
            with self._replay.reading() as state:
                self._check_changes_allowed(state, subject)
                deleted = Deleted.EXCLUDED if number == -1 and not is_permanent else Deleted.INCLUDED
                found = find_version(state, subject, number, deleted)
                names = {"subject": str(subject), "version": found.version}
                if found.is_deleted and not is_permanent:
                    raise RegistryError(VERSION_SOFT_DELETED, **names)
                if is_permanent and not found.is_deleted:
                    raise RegistryError(VERSION_NOT_SOFT_DELETED, **names)
                _check_unreferenced(state, [found])
            key = SchemaKey(str(subject), found.version)
            if is_permanent:
                self._append((key, None))
            else:
                self._append((key, found.value(is_deleted=True)))
                self._delete_settings_of_deleted(subject)
            return found.version

    def delete_subject(self, subject: SubjectName, *, is_permanent: bool = False) -> list[int]:
        """Delete all versions of a subject with its config and mode, softly or, if all are
        soft-deleted, permanently; return their numbers.
        """
        with self._change():
            with self._replay.reading() as state:
                self._check_changes_allowed(state, subject)
                versions = state.versions(subject, is_deleted_included=True)
                active = [one for one in versions if not one.is_deleted]
                if not versions:
                    raise RegistryError(SUBJECT_NOT_FOUND, subject=str(subject))
                if not is_permanent and not active:
                    raise RegistryError(SUBJECT_SOFT_DELETED, subject=str(subject))
                if is_permanent and active:
                    raise RegistryError(SUBJECT_NOT_SOFT_DELETED, subject=str(subject))
                deleted = versions if is_permanent else active
                _check_unreferenced(state, deleted)
            if is_permanent:
                self._append(*((SchemaKey(str(subject), version.version), None) for version in deleted))
            else:
                # Compaction keeps the last such record: a lower number would bring back later ones.
                self._append((DeleteSubjectKey(str(subject)), versions[-1].version))
                self._delete_settings_of_deleted(subject)
            return [version.version for version in deleted]

    # --- configs and modes

    def update_config(self, scope: Scope, update: Mapping[str, Any]) -> Config:
        """Set members of the config of a scope; return the config. `update`: of
        `parse_config_update`.
        """
        with self._change():
            with self._replay.reading() as state:
                self._check_changes_allowed(state, scope)
                config = updated_config(state.config(scope), update)
            self._append((ConfigKey(_key_subject(scope)), config))
            return config

    def delete_config(self, scope: Scope) -> Config:
        """Delete the config of a scope; return what it was."""
        with self._change():
            with self._replay.reading() as state:
                self._check_changes_allowed(state, scope)
                config = state.config(scope)
                old = config_in_force(state, None, self._defaults) if scope is None else effective_config([config])
            if config is None and scope is not None:
                raise RegistryError(SUBJECT_NOT_FOUND, subject=str(scope))
            if config is not None:
                self._append((ConfigKey(_key_subject(scope)), None))
            return old

    def update_mode(self, scope: Scope, mode: str, *, is_forced: bool = False) -> None:
        """Set the mode of a scope.

        Args: is_forced: IMPORT is allowed where schemas are registered, whose ids may clash.
        """
        with self._change():
            with self._replay.reading() as state:
                if mode == IMPORT and not is_forced and _has_schemas(state, scope):
                    raise RegistryError(
                        OPERATION_NOT_PERMITTED,
                        reason=f"{_scope_text(scope)} has schemas, whose ids an import could repeat; "
                        "force=true sets the mode IMPORT all the same.",
                    )
            self._append((ModeKey(_key_subject(scope)), {"mode": mode}))

    def delete_mode(self, scope: Scope) -> str:
        """Delete the mode of a scope; return what it was."""
        with self._change():
            with self._replay.reading() as state:
                mode = state.mode(scope)
                old = mode or mode_in_force(state, scope, self._defaults)
            if mode is None and scope is not None:
                raise RegistryError(SUBJECT_NOT_FOUND, subject=str(scope))
            if mode is not None:
                self._append((ModeKey(_key_subject(scope)), None))
            return old

    # --- parts of operations

    def _prepare(self, subject: SubjectName, content: SchemaContent, is_normalized: bool) -> _Prepared:
        """Return a schema, parsed, with what is added to it."""
        with self._replay.reading() as state:
            config = config_in_force(state, subject, self._defaults)
            takes_ids = MODES[mode_in_force(state, subject, self._defaults)].takes_ids
            latest = state.latest(subject)
            resolved = self._schemas.resolve(state, content, subject.context)
        parsed = self._schemas.parse(resolved)
        is_normalized = is_normalized or config.get("normalize") is True
        content = resolved.content.with_text(parsed.normalized() if is_normalized else parsed.text)
        stored = content if takes_ids else _with_contract(content, latest, config)
        return _Prepared(content, stored, is_normalized, parsed)

    def _parse_stored(self, version: SchemaVersion) -> ParsedSchema:
        with self._replay.reading() as state:
            resolved = self._schemas.resolve(state, version.content, version.subject.context, is_new=False)
        return self._schemas.parse(resolved, is_new=False)

    def _registered(self, subject: SubjectName, request: SchemaRequest, prepared: _Prepared) -> SchemaVersion | None:
        """Return the version that a request would add, if it is there already."""

        def accepts(version: SchemaVersion) -> bool:
            has_given = request.id in (None, version.id) and request.version in (None, version.version)
            return has_given and not version.is_deleted

        return self._find(subject, prepared, accepts) or self._find(
            subject, prepared._replace(content=prepared.stored), accepts
        )

    def _find(
        self, subject: SubjectName, prepared: _Prepared, accepts: Callable[[SchemaVersion], bool]
    ) -> SchemaVersion | None:
        """Return the newest accepted version with this very content; else with this text and what
        else is given; else, if it is normalized, with a text of the same normal form.
        """
        content = prepared.content
        with self._replay.reading() as state:
            exact = state.schemas.versions_of_content(subject.context, subject.subject, content)
            versions = state.versions(subject, is_deleted_included=True)
        for version in filter(accepts, reversed(exact)):
            return version
        alike = [one for one in reversed(versions) if accepts(one) and _has_given(one.content, content)]
        for version in alike:
            if version.content.text == content.text:
                return version
        if prepared.is_normalized:
            for version in alike:
                if self._normalized_text(version) == content.text:
                    return version
        return None

    def _normalized_text(self, version: SchemaVersion) -> str | None:
        """Return the normal form of a stored text; None: it can't be parsed."""
        try:
            return self._parse_stored(version).normalized()
        except RegistryError:
            return None

    def _check_changes_allowed(self, state: RegistryState, scope: Scope) -> str:
        mode = mode_in_force(state, scope, self._defaults)
        if not MODES[mode].allows_changes:
            raise RegistryError(OPERATION_NOT_PERMITTED, reason=f"{_scope_text(scope)} is in mode {mode}.")
        return mode

    def _check_is_compatible(self, subject: SubjectName, prepared: _Prepared) -> None:
        level, differences = self._incompatibilities(subject, prepared, None)
        if differences:
            raise RegistryError(
                INCOMPATIBLE_SCHEMA, subject=str(subject), level=level, differences="; ".join(differences)
            )

    def _incompatibilities(
        self, subject: SubjectName, prepared: _Prepared, against: Sequence[SchemaVersion] | None
    ) -> tuple[str, list[str]]:
        """Return the level, and what contradicts it. `against`: None: what the level says."""
        with self._replay.reading() as state:
            config = config_in_force(state, subject, self._defaults)
            versions = state.versions(subject) if against is None else list(against)
        level = str(config[COMPATIBILITY_LEVEL])
        versions = _of_group(versions, prepared.stored, config.get("compatibilityGroup"))
        if level not in LEVELS or level == "NONE":
            return level, []
        if not LEVELS[level].is_transitive:
            versions = versions[-1:]
        earlier = []
        for version in versions:
            try:
                earlier.append(self._parse_stored(version))
            except RegistryError as error:
                return level, [f"version {version.version} can't be compared: {error}"]
        return level, check_compatibility(level, prepared.parsed, earlier, [one.version for one in versions])

    def _delete_settings_of_deleted(self, subject: SubjectName) -> None:
        """Delete config and mode of a subject that has no version left."""
        with self._replay.reading() as state:
            if state.has_subject(subject):
                return
            keys: list[RecordKey] = []
            if state.mode(subject) is not None:
                keys.append(ModeKey(str(subject)))
            if state.config(subject) is not None:
                keys.append(ConfigKey(str(subject)))
        self._append(*((key, None) for key in keys))

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Exclude other changes, and begin when all records of earlier ones are applied: ids and
        versions are given by what the state says.
        """
        with self._changing:
            self._wait_for_appended()
            yield

    def _append(self, *records: tuple[RecordKey, RecordValue]) -> None:
        """Write records in their order, and wait until the last one is applied."""
        encoded = [(key, encode_value(key, value)) for key, value in records]
        self._check_room(encoded)
        for key, value_bytes in encoded:
            if value_bytes is None:
                # Compaction would otherwise bring back, in time, what they deleted.
                for other_key in self._replay.other_keys(key):
                    self._write(other_key, None)
            self._write(encode_key(key), value_bytes)
        self._wait_for_appended()

    def _check_room(self, records: Sequence[tuple[RecordKey, bytes | None]]) -> None:
        """Raise RegistryError if records make the state larger than allowed. Deletions never do."""
        growth = sum(self._replay.growth(*one) for one in records if not isinstance(one[0], DeleteSubjectKey))
        stored, maximum = self._replay.stored_bytes, self.limits.stored_bytes_max
        if growth > 0 and stored + growth > maximum:
            raise RegistryError(
                OPERATION_NOT_PERMITTED,
                reason=f"The registry stores {stored:,} bytes, at most {maximum:,}: delete schemas permanently first.",
            )

    def _write(self, key: bytes, value: bytes | None) -> None:
        try:
            self._appended = self._log.append(key, value)
        except StoredRecordTooLarge as error:
            raise RegistryError(SCHEMA_TOO_LARGE, reason=str(error)) from error
        except NotTheWriter as error:
            raise RegistryError(UNKNOWN_LEADER) from error
        except StoreUnavailable as error:
            raise RegistryError(STORE_FAILED, reason=str(error)) from error

    def _wait_for_appended(self) -> None:
        if not self._replay.wait_for(self._appended, self._apply_timeout_s):
            raise RegistryError(OPERATION_TIMED_OUT, seconds=self._apply_timeout_s)


def _compared_with(state: RegistryState, subject: SubjectName, number: int) -> list[SchemaVersion]:
    """Return a version; -1: the latest, if there is one."""
    if number == -1 and not state.has_subject(subject):
        return []
    return [find_version(state, subject, number)]


def _has_given(stored: SchemaContent, given: SchemaContent) -> bool:
    """Whether a stored content has all that is given, but for the text."""
    return (
        (stored.type_name, stored.references) == (given.type_name, given.references)
        and given.metadata in (None, stored.metadata)
        and given.rule_set in (None, stored.rule_set)
    )


def _next(state: RegistryState, subject: SubjectName, request: SchemaRequest, content: SchemaContent) -> SchemaVersion:
    """Return the version that is added. Numbers and ids of soft-deleted versions stay theirs."""
    if request.id is not None:
        raise RegistryError(
            OPERATION_NOT_PERMITTED, reason=f"Subject {str(subject)!r} is not in mode IMPORT, so it takes no id."
        )
    latest = state.latest(subject, is_deleted_included=True)
    number = 1 if latest is None else latest.version + 1
    if request.version not in (None, number):
        raise RegistryError(INVALID_SCHEMA, reason=f"its version is {request.version}; expected the next, {number}")
    schema_id = state.schemas.id_of(subject.context, content)
    if schema_id is None:
        schema_id = state.schemas.max_id(subject.context) + 1
    if number > VERSION_MAX or schema_id > ID_MAX:
        raise RegistryError(
            OPERATION_NOT_PERMITTED, reason=f"Subject {str(subject)!r} has no version or id left to give."
        )
    return SchemaVersion(subject, number, schema_id, content)


def _imported(
    state: RegistryState, subject: SubjectName, request: SchemaRequest, content: SchemaContent, mode: str
) -> SchemaVersion:
    """Return the version that is added with the id of a request."""
    if request.id is None:
        raise RegistryError(
            OPERATION_NOT_PERMITTED, reason=f"Subject {str(subject)!r} is in mode {mode}, which needs an id."
        )
    holder = state.schemas.any_version(subject.context, request.id)
    if holder is not None and holder.content.identity != content.identity:
        raise RegistryError(ID_DOES_NOT_MATCH, id=request.id)
    latest = state.latest(subject, is_deleted_included=True)
    number = request.version or (1 if latest is None else latest.version + 1)
    there = state.version(subject, number)
    if there is not None and there.content.identity != content.identity:
        raise RegistryError(
            OPERATION_NOT_PERMITTED,
            reason=f"Version {number} of subject {str(subject)!r} is there already, with another schema.",
        )
    return SchemaVersion(subject, number, request.id, content)


def _with_contract(content: SchemaContent, latest: SchemaVersion | None, config: Config) -> SchemaContent:
    """Return a content with its metadata and rules: its own, else those of the version before it,
    between the defaults and the overrides of the config.
    """
    metadata, rules = content.metadata, content.rule_set
    if latest is not None:
        metadata = latest.content.metadata if metadata is None else metadata
        rules = latest.content.rule_set if rules is None else rules
    for other, wins in (("default", False), ("override", True)):
        for_metadata, for_rules = config.get(f"{other}Metadata"), config.get(f"{other}RuleSet")
        metadata = data_contract.merge_metadata(*_ordered(metadata, for_metadata, wins))
        rules = data_contract.merge_rule_sets(*_ordered(rules, for_rules, wins))
    return content.with_contract(metadata, rules)


def _ordered(own: Mapping[str, Any] | None, other: Mapping[str, Any] | None, wins: bool) -> Any:
    return (own, other) if wins else (other, own)


def _of_group(versions: Sequence[SchemaVersion], content: SchemaContent, group: object) -> list[SchemaVersion]:
    """Return the versions whose property `group` is that of a content. None: no groups: all."""
    if not isinstance(group, str):
        return list(versions)
    return [version for version in versions if _property(version.content, group) == _property(content, group)]


def _property(content: SchemaContent, name: str) -> object:
    return (content.metadata or {}).get("properties", {}).get(name)


def _check_unreferenced(state: RegistryState, versions: Sequence[SchemaVersion]) -> None:
    for version in versions:
        for referrer in state.references.referrers(version.subject, version.version):
            raise RegistryError(REFERENCE_EXISTS, subject=str(version.subject), version=version.version, id=referrer.id)


def _has_schemas(state: RegistryState, scope: Scope) -> bool:
    if scope is not None and not scope.is_context:
        return state.has_subject(scope)
    context = None if scope is None else scope.context
    return any(map(state.has_subject, state.subjects(lambda name: context in (None, name.context))))


def _key_subject(scope: Scope) -> str | None:
    return None if scope is None else str(scope)


def _scope_text(scope: Scope) -> str:
    if scope is None:
        return "The registry"
    return f"Context {scope.context!r}" if scope.is_context else f"Subject {str(scope)!r}"
