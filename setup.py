"""Compiles the hot modules by mypyc where KQUEUE_COMPILE=1 asks for it: `tool.kqueue.compiled` in
pyproject.toml lists them. All else of the package is in pyproject.toml.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

BUILDS = frozenset({"bdist_wheel", "build", "build_ext", "install"})
"""Commands that need the extension; others would wait for mypyc to make nothing of it."""


class CompileHotModules(build_ext):
    """Reports what a failed build needs. It never goes on in pure Python unasked."""

    def run(self) -> None:
        try:
            super().run()
        except (BaseError, CCompilerError) as error:
            sys.exit(
                f"kqueue was not compiled: {error}. KQUEUE_COMPILE=1 needs a C compiler and the headers of Python "
                "(gcc and python3-dev, or Xcode's command line tools); without KQUEUE_COMPILE it stays pure Python."
            )


def hot_modules() -> list[Extension]:
    """Return the modules to compile; empty: it stays pure Python."""
    if os.environ.get("KQUEUE_COMPILE") != "1" or not BUILDS.intersection(sys.argv):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit("KQUEUE_COMPILE=1 needs mypy: build without --no-build-isolation, or install mypy first.")
    names = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["kqueue"]["compiled"]
    paths = [f"{name.replace('.', '/')}.py" for name in names]
    # `tox -e checks` checks the types; here packages may be missing that some of the modules use.
    options = ["--config-file=", "--ignore-missing-imports"]
    return mypycify([*options, *paths], group_name="kqueue", opt_level="3", debug_level="0", multi_file=True)


setup(cmdclass={"build_ext": CompileHotModules}, ext_modules=hot_modules())
