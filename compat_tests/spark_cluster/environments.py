"""Environments for executors that lack something."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def environment_without(folder: Path, package: str) -> Path:
    """Make an environment with all that this one has, but a package; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (there,) = folder.glob("lib/python*/site-packages")
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if package not in one.name:
            (there / one.name).symlink_to(one)
    return folder / "bin" / "python"
