"""What must hold before a version is released."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FINAL = re.compile(r"\d+\.\d+\.\d+")
_HEADING = re.compile(r"^## (\S+), (.+)$", re.MULTILINE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_VERSION = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)


def version_of(root: Path) -> str:
    """Return the version that a checkout has. Raises: ValueError: it names none."""
    text = (root / "kqueue" / "base" / "version.py").read_text(encoding="utf-8")
    found = _VERSION.search(text)
    if found is None:
        raise ValueError('kqueue/base/version.py: expected a line like __version__ = "1.2.3"')
    return found[1]


def tag_of(version: str) -> str:
    """Return the name of a version's tag in git."""
    return f"v{version}"


def notes_of(root: Path, version: str) -> str:
    """Return the text of a version's section in the changelog; "": there is none."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    begins = list(_HEADING.finditer(text))
    for number, heading in enumerate(begins):
        if heading[1] == version:
            end = begins[number + 1].start() if number + 1 < len(begins) else len(text)
            return text[heading.end() : end].strip()
    return ""


def problems(root: Path) -> list[str]:
    """Return why this checkout can't be released as it is; empty: nothing is in the way."""
    version = version_of(root)
    return [*_of_version(version), *_of_changelog(root, version), *_of_git(root, version)]


def _of_version(version: str) -> list[str]:
    if FINAL.fullmatch(version):
        return []
    return [f"kqueue/base/version.py has {version!r}: expected three numbers, such as 1.2.3"]


def _of_changelog(root: Path, version: str) -> list[str]:
    first = _HEADING.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if first is None or first[1] != version:
        newest = first[1] if first else "none"
        return [f"CHANGELOG.md begins with version {newest}: expected a section '## {version}, YYYY-MM-DD' at its top"]
    if not _DAY.fullmatch(first[2]):
        return [f"CHANGELOG.md: '## {version}, {first[2]}' has no day of release: expected YYYY-MM-DD"]
    if not notes_of(root, version):
        return [f"CHANGELOG.md: the section of {version} is empty"]
    return []


def _of_git(root: Path, version: str) -> list[str]:
    changed = git(root, "status", "--porcelain").splitlines()
    found = [f"the work tree has changes that are not committed: {line[3:]}" for line in changed[:5]]
    if git(root, "tag", "--list", tag_of(version)):
        found.append(f"the tag {tag_of(version)} is there already: raise the version, or delete a tag that nobody has")
    return found


def git(root: Path, *arguments: str) -> str:
    """Return what a command of git prints. Raises: CalledProcessError."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
