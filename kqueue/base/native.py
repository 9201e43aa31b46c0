"""Marks for mypyc, which compiles the hot modules (`setup.py`), and whether it has.

The marks are those of the package mypy_extensions, which kqueue does not need at run time. In pure
Python they change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:
    C = TypeVar("C", bound=type)

    def mypyc_attr(**attributes: bool) -> Callable[[C], C]:
        """Return a decorator that returns its class."""
        return lambda cls: cls


def is_compiled(module: str = "kqueue.wire.frame") -> bool:
    """Return whether `module` is compiled; of the hot modules all are, or none."""
    spec = find_spec(module)
    return spec is not None and spec.origin is not None and spec.origin.endswith(tuple(EXTENSION_SUFFIXES))
