"""The build backend: that of setuptools, with what mypyc needs where KQUEUE_COMPILE=1 asks for it
(see `setup.py`).
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the other hooks

MYPY = "mypy>=2.4,<2.5"


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the packages that a build needs besides setuptools: none, unless it compiles."""
    if os.environ.get("KQUEUE_COMPILE") != "1":
        return build_meta.get_requires_for_build_wheel(config_settings)
    # With their types fewer calls are of unknown functions.
    return [MYPY, *tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]]


get_requires_for_build_editable = build_meta.get_requires_for_build_editable
"""Editable installs are pure Python: the modules would be compiled again after each change."""
