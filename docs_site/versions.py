"""Keeps the HTML of several versions side by side, with the list that the menu of the site reads.

`FOLDER/0.1/...`, `FOLDER/latest/...` (the newest one again), `FOLDER/versions.json`, and
`FOLDER/index.html`, which leads to `latest`. Any web server serves the folder as it is. Source: the
layout of mike, which Zensical's menu reads.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

LIST = "versions.json"
LATEST = "latest"
NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,31}")
INDEX = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>kqueue</title>
<meta http-equiv="refresh" content="0; url={LATEST}/">
</head>
<body><a href="{LATEST}/">kqueue's documentation</a></body>
</html>
"""


def version_key(name: str) -> tuple[int, ...]:
    """Return what versions are ordered by: their numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", name))


def publish(built: Path, folder: Path, version: str) -> None:
    """Put the HTML of a version beside the others; the newest one is `latest` too.

    Args:
        built: the folder of the HTML; it is copied.
        folder: of all versions, made if it is missing.

    Raises:
        ValueError: the version can't be the name of a folder.
    """
    if NAME.fullmatch(version) is None or version == LATEST:
        raise ValueError(f"version {version!r}: expected letters, digits, '.' and '-', such as 0.1")
    folder.mkdir(parents=True, exist_ok=True)
    known = known_versions(folder)
    names = sorted({*known, version}, key=version_key, reverse=True)
    _copy(built, folder / version)
    if names[0] == version:
        _copy(built, folder / LATEST)
    rows = [{"version": name, "title": name, "aliases": [LATEST] if name == names[0] else []} for name in names]
    (folder / LIST).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(INDEX, encoding="utf-8")


def known_versions(folder: Path) -> list[str]:
    """Return the versions that a folder has; empty: none yet."""
    path = folder / LIST
    if not path.is_file():
        return []
    return [str(row["version"]) for row in json.loads(path.read_text(encoding="utf-8"))]


def _copy(built: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(built, target)
