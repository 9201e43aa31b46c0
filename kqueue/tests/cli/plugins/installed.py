"""Fake installed distributions: the metadata that pip writes for `importlib.metadata`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path


def add_distribution(folder: Path, name: str, version: str, entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Make `name` known to Pythons with `folder` on their path. entry_points: targets by name, by
    group.
    """
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {target}\n" for key, target in points.items())
        for group, points in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("".join(lines))


def add_project(folder: Path) -> None:
    """Register the distribution of the pyproject.toml in `folder`, with its modules."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    add_distribution(folder, project["name"], project["version"], project["entry-points"])
