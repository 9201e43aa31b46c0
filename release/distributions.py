"""The files that a release publishes, source distribution and pure wheel, and what is in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
SOURCES = (
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "build_backend.py",
    "kqueue",
    "pyproject.toml",
    "pyspark_kqueue",
    "setup.py",
)
"""All that a build needs of a checkout."""
MB = 1_000_000
BYTES_MAX = {"source distribution": 3 * MB, "pure wheel": 3 * MB, "compiled wheel": 5 * MB}
NEEDED = ("kqueue/py.typed", "kqueue/console/templates/base.html", "kqueue/cli/app.py", "pyspark_kqueue/__init__.py")
PACKAGES = ("kqueue", "pyspark_kqueue")
BUILD_TIMEOUT_S = 900


def build(folder: Path, root: Path = ROOT) -> list[Path]:
    """Build both into a folder; return their paths.

    The wheel is built from the source distribution, so that this has all that a build needs. Both
    are built from a copy: a build in the checkout leaves old modules for the next one.
    Raises: CalledProcessError: with what the build printed.
    """
    source = folder / "source"
    for name in SOURCES:
        if (root / name).is_dir():
            shutil.copytree(root / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            source.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, source / name)
    environment = {name: value for name, value in os.environ.items() if name != "KQUEUE_COMPILE"}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=environment)
    shutil.rmtree(source)
    return sorted(path for path in folder.iterdir() if kind_of(path))


def kind_of(path: Path) -> str:
    """Return the kind of a distribution, a key of `BYTES_MAX`; "": it is none."""
    if path.name.endswith(".tar.gz"):
        return "source distribution"
    if path.suffix == ".whl":
        return "pure wheel" if path.name.endswith("-py3-none-any.whl") else "compiled wheel"
    return ""


def contents(path: Path) -> list[str]:
    """Return the names of a distribution's files; those of a source one without its folder."""
    if kind_of(path) == "source distribution":
        with tarfile.open(path) as tar:
            return [name.partition("/")[2] for name in tar.getnames() if "/" in name]
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def problems(path: Path) -> list[str]:
    """Return what is wrong with a distribution's size and contents; empty: nothing is."""
    kind, names, size = kind_of(path), contents(path), path.stat().st_size
    found = [f"{path.name} lacks {name}" for name in NEEDED if name not in names]
    if size > BYTES_MAX[kind]:
        found.append(f"{path.name} has {size:,} bytes: expected at most {BYTES_MAX[kind]:,} of a {kind}")
    return found + [f"{path.name} has a file that is not to be published: {name}" for name in _strays(kind, names)]


def _strays(kind: str, names: Iterable[str]) -> list[str]:
    strays = []
    for name in names:
        parts = PurePosixPath(name).parts
        if not parts or name.endswith("/"):
            continue
        is_ours = parts[0] in PACKAGES or parts[0].endswith((".dist-info", ".egg-info"))
        if kind == "source distribution":
            is_ours = is_ours or name in {*SOURCES, "PKG-INFO", "setup.cfg"}
        elif kind == "compiled wheel":
            is_ours = is_ours or name.endswith((".so", ".pyd"))
        is_test = "tests" in parts or "__pycache__" in parts or name.endswith((".pyc", ".pyo"))
        if not is_ours or is_test:
            strays.append(name)
    return strays
