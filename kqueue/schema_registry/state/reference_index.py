"""Which schemas refer to a version."""

from __future__ import annotations

from typing import TypeAlias

from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.schema_registry.subject_names import SubjectName, parse_subject

VersionName: TypeAlias = tuple[SubjectName, int]


class ReferenceIndex:
    """The references of all versions that are not deleted."""

    def __init__(self) -> None:
        self._referrers: dict[VersionName, dict[VersionName, SchemaVersion]] = {}

    def add(self, version: SchemaVersion) -> None:
        """Add the references of a version; a soft-deleted one has none."""
        if not version.is_deleted:
            for target in _targets(version):
                self._referrers.setdefault(target, {})[version.subject, version.version] = version

    def remove(self, version: SchemaVersion) -> None:
        """Remove the references of a version, whose `add` was called."""
        if version.is_deleted:
            return
        for target in _targets(version):
            referrers = self._referrers[target]
            del referrers[version.subject, version.version]
            if not referrers:
                del self._referrers[target]

    def referrers(self, subject: SubjectName, version: int) -> list[SchemaVersion]:
        """Return the versions that refer to one, in no order."""
        return list(self._referrers.get((subject, version), {}).values())


def _targets(version: SchemaVersion) -> set[VersionName]:
    context = version.subject.context
    return {(parse_subject(reference.subject, context), reference.version) for reference in version.content.references}
