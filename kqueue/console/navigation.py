"""The sections of the console, in the order of its menu."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Section(NamedTuple):
    """An entry of the menu. `path`: of its first page; pages below it belong to it."""

    title: str
    path: str


class SectionGroup(NamedTuple):
    """Entries under one heading."""

    title: str
    sections: tuple[Section, ...]


NAVIGATION = (
    SectionGroup("Cluster", (
        Section("Overview", "/"), Section("Brokers", "/brokers"), Section("Reassignments", "/reassignments"),
        Section("Log folders", "/log-folders"),
    )),
    SectionGroup("Data", (
        Section("Topics", "/topics"), Section("Messages", "/messages"), Section("Schemas", "/schemas"),
        Section("Groups", "/groups"), Section("Transactions", "/transactions"), Section("Charts", "/charts"),
        Section("Requests", "/requests"),
    )),
    SectionGroup("Access", (
        Section("ACLs", "/acls"), Section("Users", "/users"), Section("Quotas", "/quotas"),
    )),
)  # fmt: skip


def served_navigation(paths: Collection[str]) -> tuple[SectionGroup, ...]:
    """Return the menu without sections of which there is no page. `paths`: of all pages."""
    groups = (
        SectionGroup(group.title, tuple(section for section in group.sections if section.path in paths))
        for group in NAVIGATION
    )
    return tuple(group for group in groups if group.sections)


def is_current(section: Section, path: str) -> bool:
    """Return whether the page at `path` belongs to a section."""
    return path == section.path or (section.path != "/" and path.startswith(section.path + "/"))
