"""Compilation of Python functions to machine code by numba. Needs `kqueue[fast]`.

numba caches compiled code beside a function's file, or where NUMBA_CACHE_DIR says. Its cache key
covers that file only. `compiled` adds the source files of all callees, so changing a shared kernel
invalidates its callers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_SOURCE_FILES = "source_files"  # attribute of a compiled function


def inlined(function: Callable[..., Any]) -> Any:
    """Return `function`, compiled and inlined into every caller: for the hottest loops."""
    return compiled(function, inline="always")


def compiled(function: Callable[..., Any], inline: str = "never") -> Any:
    """Return `function`, compiled on its first call. It runs without the GIL.

    The code is cached for later processes where the cache folder is writable. Callees must be
    defined before `function`, as names of its module.
    Args: inline: "always": numba inlines it into its callers; "never": LLVM decides.
    """
    try:
        dispatcher = njit(cache=True, nogil=True, inline=inline)(function)
    except RuntimeError:  # no writable cache folder
        return njit(nogil=True, inline=inline)(function)
    files = {function.__code__.co_filename}
    for name in function.__code__.co_names:
        files |= getattr(function.__globals__.get(name), _SOURCE_FILES, set())
    setattr(dispatcher, _SOURCE_FILES, files)
    # A numba without this attribute compares the function's own file only.
    with contextlib.suppress(AttributeError):
        dispatcher._cache._cache_file._source_stamp = tuple((path, *_stamp(path)) for path in sorted(files))
    return dispatcher


def _stamp(path: str) -> tuple[int, int]:
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size
