"""The navigation of the site: all pages, those that are not listed here too.

A page that no section lists is at the end of the section of its folder, by its path; one of no
folder at the end of How-to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

Entry = dict[str, "str | list[Entry]"]

TUTORIALS = ("testing", "small-service", "kafka-files", "spark", "cluster", "security")
HOW_TO = {
    "Install and try": ("install", "demos", "source/examples/index", "migrating"),
    "Test": ("testing", "testcontainers"),
    "Run a broker": (
        "server", "operations", "containers", "kubernetes", "systemd", "workers", "clusters", "tiered",
        "tiered-stores", "console",
    ),
    "Secure": ("security", "access-control"),
    "Produce and consume": ("transactions-and-groups", "share-groups", "schema-registry", "collect"),
    "Read and repair files": ("log-tools",),
    "Spark": ("spark", "pipeline", "spark-connect", "spark-cluster"),
    "Extend": ("plugins",),
    "More": (),
}  # fmt: skip
REFERENCE = (
    "reference/commands",
    "command-line",
    "reference/settings",
    "reference/error-codes",
    "apis",
    "security-apis",
    "versions",
    "metrics",
    "metrics-names",
    "log-events",
    "testing-reference",
    "reference/python",
)
INTERNALS = ("project/architecture", "internals/glossary", "internals/durability", "internals/recovery")
PROJECT = (
    "project/readme", "project/contributing", "internals/testing",
    "project/changelog", "project/security", "project/license",
)  # fmt: skip
TITLES = {"project/readme": "README", "project/license": "Licence", "project/security": "Reporting vulnerabilities"}
"""Titles of pages whose first heading does not say enough in a list."""


def title(text: str) -> str:
    """Return the first heading of a page, without marks of code; empty: there is none."""
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return "" if match is None else match[1].replace("`", "").strip()


class Navigation:
    """Lists pages by section.

    Args:
        pages: paths on the site.
        folder: what they are relative to.
    """

    def __init__(self, pages: Iterable[str], folder: Path) -> None:
        self._left = sorted(pages)
        self._folder = folder

    def entries(self) -> list[Entry]:
        """Return the sections, in order, each page once.

        `source/` and lists of the files of a folder have no section: links lead to them.
        """
        home = self._take("index")
        self._left = [page for page in self._left if not page.endswith("/index.md") or page.startswith("source/")]
        tutorials = [*self._take(*(f"start/{name}" for name in TUTORIALS)), *self._rest("start/")]
        report, benchmarks = self._take("report-card", "clients"), self._take("benchmarks")
        reference = [*self._take(*REFERENCE), *self._rest("reference/")]
        project = self._take(*PROJECT)
        internals = [*self._take(*INTERNALS), *self._rest("internals/"), *self._rest("project/")]
        decisions = [*self._take("decisions/README"), *reversed(self._rest("decisions/"))]
        groups: dict[str, list[Entry]] = {name: self._take(*pages) for name, pages in HOW_TO.items()}
        self._left = [page for page in self._left if not page.startswith("source/")]
        groups["More"] += self._rest("")
        sections: dict[str, list[Entry]] = {
            "Tutorials": tutorials,
            "How-to": [{name: list(pages)} for name, pages in groups.items() if pages],
            "Reference": reference,
            "Internals": [*internals, {"Project": list(project)}] if project else internals,
            "Decisions": decisions,
            "Report card": report,
            "Benchmarks": benchmarks,
        }
        return [{"Home": page} for entry in home for page in entry.values()] + [
            {name: list(pages)} for name, pages in sections.items() if pages
        ]

    def _take(self, *names: str) -> list[Entry]:
        return [self._entry(f"{name}.md") for name in names if f"{name}.md" in self._left]

    def _rest(self, prefix: str) -> list[Entry]:
        return [self._entry(page) for page in [page for page in self._left if page.startswith(prefix)]]

    def _entry(self, page: str) -> Entry:
        self._left.remove(page)
        name = page.removesuffix(".md")
        return {TITLES.get(name) or title((self._folder / page).read_text(encoding="utf-8")) or name: page}


def as_toml(entries: Sequence[Entry]) -> str:
    """Return entries as a value in TOML. A string of JSON is one of TOML too."""
    items = [
        f"{{ {json.dumps(name)} = {json.dumps(value) if isinstance(value, str) else as_toml(value)} }}"
        for entry in entries
        for name, value in entry.items()
    ]
    return f"[{', '.join(items)}]"
